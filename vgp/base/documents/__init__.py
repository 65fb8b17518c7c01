"""Documents of any author: JSON, YAML and TOML read within limits, each value with the line on which it stands.

budget.py         how much work one document may cost
document.py       the documents of a file, and the lines of their keys; the place of a line
edits.py          single values of a text, changed where they stand
json_text.py      JSON texts: data, repeated keys, lines
node.py           a value with its place, its placeholders followed
bounded_text.py   files and standard input as text, bounded; the path of a value
toml_text.py      TOML texts, refused before they cost much; where pipelines.toml is
yaml_lines.py     where paths stand in a YAML text
yaml_text.py      YAML texts from their events, within limits"""
