"""Documents of any author: JSON, YAML and TOML read within limits, each value with the line on which it stands.

budget.py         how much work one document may cost
document.py       the documents of a file, and the lines of their keys
edits.py          single values of a text, changed where they stand
field_path.py     where a value stands: keys and indexes
json_text.py      JSON texts: data, repeated keys, lines
node.py           a value with its place, its placeholders followed
place.py          where a line stands in its file, and in which cell of a notebook
reading.py        files and standard input as text, bounded
settings_file.py  where pipelines.toml is
toml_text.py      TOML texts, refused before they cost much
yaml_lines.py     where paths stand in a YAML text
yaml_text.py      YAML texts from their events, within limits"""
