"""Every key of a document has its line, in JSON and in YAML."""

import pytest

from vgp.documents.document import parse


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('{\n "a": [\n  1,\n  {"b": {\n "c,": "x}"},\n "d": [[1],\n[2]]}]\n}', ("a", 1, "b", "c,"), 5),
        ('{\n "a": [\n  1,\n  {"b": {\n "c,": "x}"},\n "d": [[1],\n[2]]}]\n}', ("a", 1, "d", 1), 7),
        ('{\n "a": [\n  1,\n  {"b": {}}]\n}', ("a", 1), 4),
        ('{"a": {},\n "b": [],\n "c": 1}', ("c",), 3),
        ('{"a": {},\n "b": 1}', ("b", "not there"), 2),
        ("a:\n- b: 1\n  c: 2\n", ("a", 0, "c"), 3),
        ("a: &x {b: 1}\nc: *x\n", ("c", "b"), 1),
    ],
)
def test_a_path_leads_to_its_line(text, path, line):
    assert parse("f.yaml", text)[0].line(path) == line
