"""Untrusted documents: JSON, YAML and TOML read within limits, with the line of each value.

document.py       the documents of a file, and the lines of their keys
edits.py          edits of single values that keep the rest of the text
json_text.py      JSON texts: validated against a model; data, repeated keys, lines
node.py           a value with its path, its placeholders resolved
bounded_text.py   files and standard input as text; the work budget of one document
toml_text.py      TOML texts within limits; the search for pipelines.toml
yaml_text.py      YAML texts within limits, and the lines of their paths"""
