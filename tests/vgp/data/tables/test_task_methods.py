"""What a task's own Python raises is one line, with the line of the user's file."""

import importlib
import re
import sys

import ibis
import pytest

from vgp.base import exits as errors
from vgp.base.exits import UserError
from vgp.data.tables import task_methods

TASK = """
import json

import ibis
import pyarrow as pa

from vgp.data.schema import Field
from vgp.data.tabular import TabularTask

PLANS = {"basic": 1}


def price(plan):
    return PLANS[plan]


class Mine(TabularTask):
    schema = (Field("plan", pa.string()), Field("day", pa.date32()), Field("done", pa.bool_(), known="after"))
    target = "done"
    time = "day"

    def features(self, rows):
        return {"plan": rows.plan, "price": price("premium")}

    def labels(self, rows):
        return rows.day.frobnicate()

    def events(self, rows):
        return json.loads("{")

    def days(self, rows):
        return rows.plan + rows.day
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "own_mine.py").write_text(TASK)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("own_mine").Mine()
    sys.path.remove(str(folder))
    del sys.modules["own_mine"]


ROWS = ibis.table({"plan": "string", "day": "date", "done": "boolean"}, name="rows")


@pytest.mark.parametrize(
    ("method", "code", "message"),
    [
        ("features", "return PLANS[plan]", "KeyError: 'premium'"),
        ("labels", "return rows.day.frobnicate()", "AttributeError: 'DateColumn' object has no attribute 'frobnicate'"),
        # The line of the user's, not that of the library which raised it.
        ("events", 'return json.loads("{")', "JSONDecodeError: Expecting property name"),
        ("days", "return rows.plan + rows.day", "SignatureValidationError: StringConcat"),
    ],
)
def test_an_error_of_the_users_code_is_reported_with_their_line(mine, method, code, message):
    line = next(number for number, text in enumerate(TASK.splitlines(), 1) if text.strip() == code)
    with pytest.raises(UserError) as error:
        task_methods.call_method(mine, method, ROWS)
    text = str(error.value)
    assert re.match(rf"Mine\.{method}: \S+/own_mine\.py:{line}: ", text) and message in text
    assert "\n" not in text


def test_a_traceback_is_shown_when_it_is_asked_for(mine, monkeypatch, capsys):
    step = errors.exits(lambda: task_methods.call_method(mine, "features", ROWS))
    with pytest.raises(SystemExit):
        step()
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setenv("TRAINING_DEBUG", "1")
    with pytest.raises(SystemExit):
        step()
    shown = capsys.readouterr().err
    assert "Traceback (most recent call last)" in shown and "return PLANS[plan]" in shown
    assert shown.splitlines()[-1].startswith("error: Mine.features: ")
