"""Documents of any author: JSON, YAML and TOML read within limits, each value with the line on which it stands.

document.py       the documents of a file, and the lines of their keys; the place of a line
edits.py          single values of a text, changed where they stand
json_text.py      JSON texts: checked against a model; data, repeated keys, lines
node.py           a value with its place, its placeholders followed
bounded_text.py   files and standard input as text, and the work that one document may cost, bounded
toml_text.py      TOML texts, refused before they cost much; where pipelines.toml is
yaml_text.py      YAML texts from their events, within limits, and where paths stand in them"""
