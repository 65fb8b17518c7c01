"""Names of tasks: short ones, `module:Class`, and those that data of earlier versions holds."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from vgp.base.exits import UserError
from vgp.data import task_names
from vgp.train.loop.training_request import _settings_then


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("table", "vgp.data.tasks.table.task:Table"),
        ("flights", "training.tasks.flights:Flights"),
        ("language_model", "training.tasks.language_model:LanguageModel"),
        ("my_package.my_task:MyTask", "my_package.my_task:MyTask"),
        ("training.tasks.table.task:Table", "vgp.data.tasks.table.task:Table"),
        ("training.tasks.files:Files", "vgp.data.tasks.files:Files"),
    ],
)
def test_a_name_has_one_full_form_whichever_version_wrote_it(name, full):
    assert task_names.spec(name) == full == task_names.spec(full)


def test_the_short_name_of_a_task_is_that_of_its_file():
    assert [task_names.short(name) for name in ("training.tasks.flights:Flights", "table", "a.b:C")] == [
        "flights", "table", "",
    ]  # fmt: skip
    assert task_names.short("training.tasks.flights:Others") == ""


def test_a_file_of_the_project_is_a_task_and_a_name_without_one_is_refused_with_the_choices(tmp_path):
    (tmp_path / "training/tasks").mkdir(parents=True)
    (tmp_path / "training/__init__.py").touch()
    (tmp_path / "training/tasks/churn.py").write_text("from docs.examples.digits import Digits as Churn\n")
    code = "from vgp.data import tasks; print(tasks.find('churn').__name__); tasks.find('chrun')"
    places = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **places}, capture_output=True, text=True)
    assert done.stdout == "Digits\n", done.stderr
    assert "(files, table, churn). Did you mean churn?" in done.stderr


def test_a_file_is_not_enough_to_import_a_module_that_is_no_task_of_the_project():
    assert task_names.require_trusted("flights", "card.json") == "training.tasks.flights:Flights"
    for named in ("training.tasks.evil:Evil", "training.secret:Key", "my_evil_module:Task"):
        with pytest.raises(UserError, match="neither in the library or the project nor imported"):
            task_names.require_trusted(named, "card.json")


def test_a_checkpoint_of_an_earlier_version_is_of_the_same_task():
    checkpoint = SimpleNamespace(settings={"config": {"task": "training.tasks.table.task:Table", "epochs": 3}})
    assert _settings_then(checkpoint) == {"config": {"task": "vgp.data.tasks.table.task:Table", "epochs": 3}}
    assert _settings_then(None) == {}
