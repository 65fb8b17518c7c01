"""TOML of any author is read, or refused in a sentence before it costs much."""

import time

import pytest

from vgp.base.documents.bounded_text import Unreadable
from vgp.base.documents.toml_text import MAX_BYTES, MAX_LEVELS, levels, load, loads

DEEP = 100_000


def nested(opening: str, closing: str, depth: int = DEEP) -> str:
    return f"a = {opening * depth}{closing * depth}\n"


@pytest.mark.parametrize(
    "text",
    [
        nested("[", "]"), nested("{a = ", "}"), nested("[{a = ", "}]"), "a = " + "[" * DEEP,
        ".".join("a" * DEEP) + " = 1\n", f"[{'.'.join('a' * DEEP)}]\n", f"[[{'.'.join('a' * DEEP)}]]\n",
        '"a" . ' * DEEP + "a = 1\n", f"a = {{ b = \"\"\"x\"\"\"\", {'.'.join('c' * DEEP)} = \"y\" }}\n",
        f"a = ['''x'''', {'[' * DEEP}, 'y']\n", f"# ' \n{nested('[', ']')}# '\n",
    ],
)  # fmt: skip
def test_deep_nesting_is_refused_soon(text):
    before = time.process_time()
    with pytest.raises(Unreadable, match=rf"a\.toml: nested more than {MAX_LEVELS} levels deep"):
        loads(text, "a.toml")
    assert time.process_time() - before < 20


@pytest.mark.parametrize(
    ("text", "depth"),
    [
        ("", 0), ("a = 1.5\n", 1), ("[a.b]\nc = [[1, 2], [3]]\n", 3), ('a = "[[[[ . . . ]]]]"\n', 0),
        ('a = """x\n[[[[ \\""" a.b.c.d\n"""\n', 0), ("a = '''\n[[[[\n'''\n", 0), ("# [[[[ a.b.c\na = 1\n", 0),
        ("a = 'C:\\'\nb = [[1]]\n", 2),
    ],
)  # fmt: skip
def test_levels_are_those_outside_of_texts_and_comments(text, depth):
    assert levels(text) == depth


def test_settings_are_read_with_byte_order_mark_and_any_line_ends(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbf[steps.train]\r\nmachine = 'm'\r\n")
    assert load(path) == {"steps": {"train": {"machine": "m"}}}


def test_what_is_no_toml_is_refused_with_its_place():
    with pytest.raises(Unreadable, match=r"a\.toml: not valid TOML: .*line 2"):
        loads("a = 1\nb =\n", "a.toml")


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path):
    path = tmp_path / "a.toml"
    with path.open("wb") as file:
        file.truncate(50 * MAX_BYTES)
    with pytest.raises(Unreadable, match="larger than 1 MB"):
        load(path)
