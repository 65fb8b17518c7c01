"""Documents of any author: JSON and YAML read within limits, each value with the line on which it stands."""
