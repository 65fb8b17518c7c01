"""Every key of a document has its line, in JSON and in YAML."""

import pytest

from vgp.base.documents.document import MAX_DOCUMENTS, parse


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


def test_each_line_of_json_lines_is_a_document():
    text = '{"a": 1}\r\n\n{"b": {"c": 2}}\n{"d": \n[5]\n---\n'
    first, second, third, fourth, fifth = parse("jobs.JSONL", text)
    assert (first.data, second.data, fourth.data) == ({"a": 1}, {"b": {"c": 2}}, [5])
    assert (first.default_step, second.line(("b", "c")), fourth.line((0,))) == ("job[0]", 3, 5)
    assert "line 4 is not JSON" in str(third.fault) and "line 6 is not JSON" in str(fifth.fault)
    assert parse("jobs.jsonl", "\n") == []


def test_json_lines_have_no_more_documents_than_other_files():
    documents = parse("jobs.ndjson", '{"a": 1}\n' * (MAX_DOCUMENTS + 5))
    assert len(documents) == MAX_DOCUMENTS + 1 and "more than 2,000 documents" in str(documents[-1].fault)
