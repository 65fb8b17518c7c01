"""The file as text: the line of every key, and one value written while all else stays to the letter."""

import os
import tomllib
from pathlib import Path

import pytest
import tomlkit
from hypothesis import given
from hypothesis import strategies as st

from vgp.base.errors import RequestError
from vgp.settings.settings_text import Document, read, write_value

TEXT = '''\
# where
a = 1 # why
"quoted key" = true
d.e.f = 3
list = [
  1, # one
]
inline = {x = 1, y = {z = true}}

[steps.train] # two L4
machine = """a
b"""
spot = false

[environments.prod.steps.train]
count = 8
[other]
[steps.evaluate]
n = 2
[[many]]
c = 1
[[many]]
c = 2
[environments.prod]
region = "x"
tables = [
  {x = 1},
  # why
  {x = 2, y = 3},
]
'''
LINES = {
    ("a",): 2, ("quoted key",): 3, ("d", "e", "f"): 4, ("d",): 4, ("list",): 5, ("inline",): 8, ("inline", "y", "z"): 8,
    ("steps",): 10, ("steps", "train"): 10, ("steps", "train", "machine"): 11, ("steps", "train", "spot"): 13,
    ("environments", "prod", "steps", "train", "count"): 16, ("other",): 17, ("steps", "evaluate", "n"): 19,
    ("many",): 20, ("many", "1", "c"): 21, ("many", "2"): 22, ("many", "2", "c"): 23,
    ("environments", "prod", "region"): 25,
    ("environments", "prod", "tables", "1", "x"): 27, ("environments", "prod", "tables", "2", "y"): 29,
}  # fmt: skip


@pytest.mark.parametrize("keys", LINES)
def test_a_key_is_found_on_its_line(keys: tuple[str, ...]) -> None:
    assert Document(Path("x"), TEXT).line(keys) == LINES[keys]
    assert Document(Path("x"), TEXT.replace("\n", "\r\n")).line(keys) == LINES[keys]


def test_a_key_that_is_not_there_is_where_its_table_is() -> None:
    document = Document(Path("x"), TEXT)
    assert document.line(("steps", "train", "nodes")) == 10
    assert document.line(("nothing",)) == 1


NAMES = st.sampled_from(["a", "b", "c", "d-e", "f g"])
VALUES = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(NAMES, VALUES, max_size=4), st.lists(NAMES, min_size=1, max_size=3), VALUES)
def test_one_value_is_written_and_no_other_changes(
    tmp_path_factory: pytest.TempPathFactory, values: dict, keys: list[str], value: object
) -> None:
    path = tmp_path_factory.mktemp("toml") / "pipelines.toml"
    path.write_text(tomlkit.dumps(values), newline="")
    expected = tomllib.loads(path.read_text())
    table = expected
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            with pytest.raises(RequestError, match="is not a table"):
                write_value(path, keys, value)
            return
    table[keys[-1]] = value
    write_value(path, keys, value)
    assert tomllib.loads(path.read_text()) == expected


@pytest.mark.parametrize(
    ("keys", "old", "new"),
    [
        (("a",), "a = 1 # why", 'a = "new" # why'),
        (("steps", "evaluate", "n"), "n = 2", 'n = "new"'),
        (("environments", "prod", "region"), 'region = "x"', 'region = "new"'),
        (("environments", "prod", "steps", "train", "count"), "count = 8", 'count = "new"'),
        (("inline", "y", "z"), "z = true", 'z = "new"'),
        (("steps", "train", "spot"), "spot = false", 'spot = "new"'),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_comments_order_and_spaces_stay(
    tmp_path: Path, keys: tuple[str, ...], old: str, new: str, newline: str
) -> None:
    path = tmp_path / "pipelines.toml"
    path.write_bytes(TEXT.replace("\n", newline).encode())
    write_value(path, keys, "new")
    assert path.read_bytes() == TEXT.replace(old, new).replace("\n", newline).encode()


def test_a_new_value_goes_into_its_table(tmp_path: Path) -> None:
    path = tmp_path / "pipelines.toml"
    path.write_text('# first\nregion = "x"\n\n[steps.train]\nmachine = "m"\n')
    write_value(path, ("image",), "i")
    write_value(path, ("environments", "prod", "image"), "p")
    assert tomllib.loads(path.read_text()) == {
        "region": "x", "image": "i", "steps": {"train": {"machine": "m"}}, "environments": {"prod": {"image": "p"}},
    }  # fmt: skip
    assert path.read_text().startswith('# first\nregion = "x"\n')


def test_a_link_stays_a_link_and_rights_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "pipelines.toml"
    real.write_text("a = 1\n")
    real.chmod(0o640)
    link.symlink_to(real)
    write_value(link, ("a",), 2)
    assert link.is_symlink() and real.read_text() == "a = 2\n"
    assert real.stat().st_mode & 0o777 == 0o640


def test_a_failed_write_leaves_the_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "pipelines.toml"
    path.write_text("a = 1\n")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RequestError, match=r"cannot be written: No space left on device\."):
        write_value(path, ("a",), 2)
    assert path.read_text() == "a = 1\n" and os.listdir(tmp_path) == ["pipelines.toml"]


@pytest.mark.parametrize(
    ("text", "keys", "message"),
    [
        ("a = \n", ("a",), "not valid TOML"),
        ("\na = 1\n", ("a", "b"), ":2: a is not a table."),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, text: str, keys: tuple[str, ...], message: str) -> None:
    path = tmp_path / "pipelines.toml"
    path.write_text(text)
    with pytest.raises(RequestError) as refused:
        write_value(path, keys, 1)
    assert message in str(refused.value) and path.read_text() == text


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        read(tmp_path / "none.toml")
