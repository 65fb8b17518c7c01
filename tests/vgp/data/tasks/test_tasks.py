"""How a task is found, and a task that is a file."""

import json
import sys
from types import ModuleType

import pytest

from tests.helpers.declared import TOML, passengers
from vgp.base.exits import UserError
from vgp.data import tasks
from vgp.data.task import Task
from vgp.data.tasks import file_options
from vgp.steps.__main__ import main


class Silent(Task):
    def shards(self, data):
        return []

    def rows(self, shard, statistics):
        return {}

    def model(self, data):
        raise NotImplementedError

    def loss(self, model, batch):
        raise NotImplementedError


class Scored(Silent):
    def score(self, model, batch):
        return batch["loss"]


@pytest.fixture
def module(monkeypatch):
    found = ModuleType("contract_tasks")
    found.Silent, found.Scored = Silent, Scored
    monkeypatch.setitem(sys.modules, "contract_tasks", found)


def test_a_task_must_predict_or_score(module):
    with pytest.raises(UserError, match=r"lacks predict \(or score\)"):
        tasks.load("contract_tasks:Silent")
    assert tasks.load("contract_tasks:Scored").likelihood
    assert not tasks.load("flights").likelihood


def test_an_option_that_a_task_does_not_have_is_refused():
    """Also by a task that is no table, to which a window of time means nothing."""
    with pytest.raises(UserError, match="Digits has no option 'train'.*channels"):
        tasks.load("docs.examples.digits:Digits", {"train": "6 months"})


# ---- `task=FILE.toml`: the text of the file goes on, and no path


def test_a_file_becomes_the_option_declaration_beside_others(tmp_path):
    (tmp_path / "titanic.toml").write_text(TOML)
    assert file_options("titanic.toml", {"hidden": [8]}, tmp_path) == {"hidden": [8], "declaration": TOML}


@pytest.mark.parametrize(
    ("name", "content", "given", "message"),
    [
        ("nix.toml", b"", {}, "no such file in .*titanic.toml.*vgp new table"),
        ("titanic.toml", b"\xff", {}, "is not UTF-8"),
        ("titanic.toml", b"target = 3", {}, "titanic.toml, line 1: target = 3"),
        ("titanic.toml", b"x" * 200_000, {}, "titanic.toml has 200,000|titanic.toml has 98,3"),
        ("titanic.toml", TOML.encode(), {"declaration": "x"}, "both declare the table"),
    ],
)
def test_a_file_that_cannot_be_is_refused(tmp_path, name, content, given, message):
    (tmp_path / "titanic.toml").write_bytes(content)
    with pytest.raises(UserError, match=message):
        file_options(name, given, tmp_path)


def test_the_steps_of_a_shell_take_the_file_too(tmp_path, monkeypatch, capsys):
    """And one character more in it is another request, with other pins."""
    monkeypatch.chdir(tmp_path)
    data = str(passengers(tmp_path, 60))
    digests = []
    for text in (TOML, TOML + "#"):
        (tmp_path / "t.toml").write_text(text)
        main(["resolve", "--data", data, "--task", "t.toml", "--to", str(tmp_path / "pins"), "--json"])
        digests.append(json.loads(capsys.readouterr().out)["data"])
    assert digests[0] != digests[1]
    pins = json.loads(next((tmp_path / "pins").glob(digests[1].rpartition("/")[2])).read_text())
    assert pins["options"] == {"declaration": TOML + "#"} and pins["task"] == "vgp.data.tasks.table.task:Table"
    main(["prepare", str(tmp_path / "out"), "--data", data, "--task", "t.toml", "--set", "test_share=0.5"])
    made = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert made["options"] == {"declaration": TOML + "#", "test_share": 0.5}


def test_the_error_for_a_file_name_that_reaches_a_step_names_the_right_value():
    with pytest.raises(UserError, match="set task = table and pass the text of the file as the option declaration"):
        tasks.load("titanic.toml")


def test_a_wrong_file_is_one_line_and_exit_code_2(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["prepare", "out", "--data", "x.csv", "--task", "t.toml"])
    assert ended.value.code == 2 and capsys.readouterr().err.startswith("error: task = t.toml: no such file")
