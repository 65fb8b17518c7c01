from datetime import date
from pathlib import Path

import ibis
import pyarrow as pa
import pytest

from vgp.base.exits import UserError
from vgp.data.prepare import prepare
from vgp.data.rows import open_rows
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask

from .conftest import visit_rows

DAY, PAGE = Field("day", pa.date32()), Field("page", pa.string())
DONE = Field("done", pa.bool_(), known="after")


def task_of(**attributes) -> type[TabularTask]:
    return type("Mine", (TabularTask,), {"schema": (DAY, PAGE, DONE), "target": "done", **attributes})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"schema": ()}, "declares no schema"),
        ({"schema": (DONE,)}, "has no column known before the outcome"),
        ({"target": ""}, "needs `target`"),
        ({"target": "don"}, "target names 'don'.*done"),
        ({"key": ("pge",)}, "key names 'pge'.*page"),
        ({"time": "page"}, "time must be a date or a timestamp; page is string"),
        ({"schema": (DAY, PAGE, Field("done", pa.bool_()))}, "must be declared with known='after'"),
        ({"time": "day", "schema": (Field("day", pa.date32(), nullable=True), PAGE, DONE)}, "may not be nullable"),
        (
            {"schema": (PAGE, Field("Page", pa.string()), DONE)},
            "has both page and Page: no two names",
        ),
        ({"schema": (Field("_kind", pa.string()), DONE)}, "_kind is a reserved name"),
        (
            {"schema": (Field("at", pa.time32("s")), DONE)},
            "the column at is declared as time32.*: a table",
        ),
        ({"schema": (Field("x", pa.float16()), DONE)}, "x is declared as halffloat, .*: declare pa.float32"),
        (
            {"schema": (Field("id", pa.decimal128(16, 0)), DONE), "key": ("id",)},
            r"key or group id is decimal128\(16, 0\), computed as float64.* Declare pa.int64\(\) if",
        ),
        ({"schema": (Field("id", pa.decimal128(20, 2)), DONE), "group": "id"}, "key or group id is decimal128"),
        ({"schema": (PAGE, Field("p" + "age", pa.string()), DONE)}, "names 'page', which is empty or a dupl"),
        ({"schema": (Field("", pa.string()), DONE)}, "names '', which is empty"),
        (
            {"schema": (Field("d", pa.dictionary(pa.int8(), pa.string())), DONE)},
            "d is declared as dict.*type, string",
        ),
        ({"schema": (Field("d", pa.decimal256(60, 2)), DONE)}, "d is declared as decimal256.*: declare pa.float64"),
        (
            {"summary": lambda self, table: None},
            "Mine.summary is not a method of a task over a table. Write `days`, `labels`",
        ),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused_at_once(attributes, message):
    with pytest.raises(UserError, match=message):
        task_of(**attributes)()


@pytest.mark.parametrize(
    ("attributes", "groups", "called"),
    [
        ({}, (), ()),
        ({"time": "day"}, ("_day",), ("day of day",)),
        ({"time": "day", "group": "day"}, ("_day",), ("day",)),
        ({"time": "day", "group": ("page", "day")}, ("page", "_day"), ("page", "day")),
        ({"time": "day", "group": "page"}, ("page",), ("page",)),
        ({"time": "day", "group": "row"}, (), ()),
        ({"group": "row"}, (), ()),
        ({"group": "day"}, ("day",), ("day",)),
        ({"time": "day", "group": "row", "schema": (DAY, Field("row", pa.string()), DONE)}, ("row",), ("row",)),
    ],
)
def test_rows_of_a_table_with_a_time_are_grouped_by_its_day_unless_the_task_overrides_it(attributes, groups, called):
    task = task_of(**attributes)()
    assert (task.groups, task.grouped_by) == (groups, called)


@pytest.mark.parametrize(
    ("options", "attributes", "by"),
    [
        ({"test": "10 days"}, {}, "time (day)"),
        ({"split": "hash"}, {}, "columns"),
        ({"split": "hash"}, {"group": "day"}, "group day"),
    ],
)
def test_the_day_of_the_time_stands_beside_a_feature_of_that_name(tmp_path, monkeypatch, options, attributes, by):
    """Where a hash splits, rows of a day stay together only if the task names it."""
    rows = [(f"2024-{1 + i // 28:02}-{1 + i % 28:02}", f"p{n}", (i * n) % 3 == 0) for i in range(80) for n in range(5)]
    lines = [f"{day},{page},{str(done).lower()}" for day, page, done in rows]
    (tmp_path / "x.csv").write_text("\n".join(["day,page,done", *lines]) + "\n")
    task = task_of(time="day", features=lambda self, rows: {"day": rows.day.day(), "page": rows.page}, **attributes)
    monkeypatch.setattr("vgp.data.tasks.find", lambda name: task)
    made = prepare("mine:Mine", f"{tmp_path}/x.csv", tmp_path / "data", options=options, workers=1)
    assert made.split["by"] == by and made.column("_day").kind == "id"
    days = {split: open_rows(tmp_path / "data", split).columns for split in made.splits}
    since = {int(day): int(of) for kept in days.values() for day, of in zip(kept["_day"], kept["day"], strict=True)}
    assert since == {(date.fromisoformat(day) - date(1970, 1, 1)).days: int(day[-2:]) for day, _, _ in rows}
    parted = sum(len(set(split["_day"].tolist())) for split in days.values()) > len(since)
    assert parted == (by == "columns")


def test_a_decimal_whose_digits_a_float64_holds_may_be_a_key():
    assert task_of(schema=(Field("id", pa.decimal128(15, 2)), DONE), key=("id",))().key == ("id",)


OWN_WINDOWS = {**TabularTask.settings, "train": "1-6", "test": "9"}


@pytest.mark.parametrize(
    ("options", "train", "test"),
    [
        ({}, "1-6", "9"),
        ({"train": "1-3"}, "1-3", "4"),  # not the task's own test window, which belongs to its train window
        ({"test": "8"}, "1-6", "8"),
        ({"train": "1-3", "test": 5}, "1-3", "5"),
        ({"train": ""}, "", ""),
    ],
)
def test_windows_are_options_of_a_task_with_a_time(options, train, test):
    split = task_of(time="day", settings=OWN_WINDOWS)(options).split
    assert (split.windows.train.text, split.windows.test.text) == (train, test)


@pytest.mark.parametrize(
    ("attributes", "options", "message"),
    [
        ({}, {"train": "1-6", "test": "7"}, "train and test would do nothing: Mine has no time column"),
        ({}, {"split": "time"}, "Mine has no time column, so split = time is not possible"),
        ({}, {"split": "fold"}, "split = 'fold' is neither time nor hash nor a column.*day, done"),
        ({}, {"split": "pge"}, "nor a column.*page"),
        ({}, {"split": "day"}, "the split column day must hold strings; it is date32"),
        (
            {},
            {"split": "page", "test_share": 0.1},
            "test_share would do nothing: the column page decides",
        ),
        (
            {"time": "day"},
            {"test_share": 0.1},
            "test_share would do nothing: windows of time decide which rows are test rows",
        ),
        ({"time": "day"}, {"split": "hash", "train": "1-6"}, "train would do nothing: Mine is split by a hash"),
        ({"time": "day"}, {"train": "1-13"}, "no month 13"),
        ({}, {"test_share": 0}, "test_share must be above 0 and their sum below 1"),
        ({}, {"test_share": 0.6, "validation_share": 0.4}, "their sum below 1"),
        (
            {},
            {"test_share": 0.125},
            "test_share = 0.125: it must be a share of the rows in whole per cent, such as 0.2",
        ),
        ({}, {"test_share": "half"}, "test_share = 'half': it must be a share"),
        ({"time": "day"}, {"validation_share": 1}, "validation_share = 1: it must be a share"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused_before_any_file_is_opened(attributes, options, message):
    with pytest.raises(UserError, match=message):
        task_of(**attributes)(options)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"group": "user"}, "group is 'user': neither a feature, nor a column known before"),
        ({"slices": ("pages",)}, "the slice pages is none of the features page"),
        ({"features": lambda self, rows: {"day": rows.day}}, "the feature day is of type date"),
        ({"features": lambda self, rows: {"done": rows.page}}, "has the name of a column that is known"),
        ({"features": lambda self, rows: {"row_id": rows.page}}, "row_id has the name of a column that every dataset"),
        ({"features": lambda self, rows: {7: rows.page}}, "Mine.features calls a feature 7: its name must be a text"),
        ({"features": lambda self, rows: {"a": rows}}, "the feature a is a Table: give a column, or a number"),
        ({"features": lambda self, rows: rows.page}, "Mine.features gives a StringColumn: it must be values by name"),
        (
            {"features": lambda self, rows: {"x": rows.page.cast("int64")}},
            r"Mine.features: x cannot be computed for .*x.csv, line 2 \(page = .p0.\): .* to INT64",
        ),
        ({"events": lambda self, rows: [rows]}, "Mine.events gives a list: it must be values by name"),
        ({"events": lambda self, rows: {"e": rows}}, "the events e are a Table: return vgp.data.events.Events"),
        ({"days": lambda self, rows: rows.page}, "Mine.days gives string: it must give a date for each row"),
        (
            {"labels": lambda self, rows: rows.page},
            "Mine.labels gives string: it must give a whole number",
        ),
        ({"features": lambda self, rows: {}}, "returns no columns: return at least one"),
        (
            {"features": lambda self, rows: {"x": rows.pag}},
            "the rows have no column 'pag'.*page",
        ),
        (
            {"features": lambda self, rows: {"x": rows["done"]}},
            "Mine.features asks for done, which is known",
        ),
        ({"days": lambda self, rows: rows["dy"]}, "Mine.days: the rows have no column 'dy'.*day"),
        (
            {"features": lambda self, rows: {"x": ibis.table({"n": "int64"}, name="source").n}},
            "Mine.features gives a column of another table than the `rows` that it was given",
        ),
        (
            {"features": lambda self, rows: {"x": rows.join(rows.view(), "page").day_right.epoch_days()}},
            "Mine.features gives a column of another table",
        ),
        (
            {"features": lambda self, rows: {"x": ibis.array([rows.page, "b"]).unnest()}},
            "the feature x has several values for a row",
        ),
        (
            {"features": lambda self, rows: {"x": rows.page, "X": rows.page}},
            "the features x and X: no two names may differ in case only",
        ),
        (
            {"group": "page", "features": lambda self, rows: {"Page": rows.page}},
            "the features page and Page: no two names may differ in case only",
        ),
        ({"features": lambda self, rows: {"Label": rows.page}}, "Label has the name of a column that every dataset"),
        ({"features": lambda self, rows: {"": rows.page}}, "'' cannot be a feature"),
        ({"features": lambda self, rows: {"_split": rows.page}}, "'_split' cannot be a feature"),
        ({"features": lambda self, rows: {"x": ibis.random()}}, "x uses RandomScalar, which is another value every"),
        ({"features": lambda self, rows: {"x": ibis._.page.lag()}}, "x has a window without an order"),
        (
            {"days": lambda self, rows: (rows.page == "p1").ifelse(ibis.null("date"), rows.day)},
            "line 3: the row has no day of the years 1 to 9999; its day is 2024-02-03",
        ),
        ({"labels": lambda self, rows: rows.page.length() + 5}, r"line 2: the label False is none of no, yes"),
    ],
)
def test_what_a_task_returns_is_checked(tmp_path: Path, monkeypatch, attributes, message):
    rows = [f"2024-0{1 + i % 2}-03,p{i % 3},{'true' if i % 5 else 'false'}" for i in range(60)]
    (tmp_path / "x.csv").write_text("\n".join(["day,page,done", *rows]) + "\n")
    task = task_of(time="day", key=(), **attributes)
    monkeypatch.setattr("vgp.data.tasks.find", lambda name: task)
    with pytest.raises(UserError, match=message):
        prepare("mine:Mine", f"{tmp_path}/x.csv", tmp_path / "data", workers=1)


def test_a_class_that_was_not_declared_is_named_with_its_line(tmp_path: Path, monkeypatch):
    (tmp_path / "x.csv").write_text("day,page,done\n2024-01-01,p,good\n2024-01-01,p,bed\n")
    outcome = Field("done", pa.string(), nullable=True, known="after")
    task = task_of(schema=(DAY, PAGE, outcome), time="day", classes=("good", "bad"))
    monkeypatch.setattr("vgp.data.tasks.find", lambda name: task)
    with pytest.raises(UserError, match=r"x.csv, line 3: the label 'bed' is none of good, bad"):
        prepare("mine:Mine", f"{tmp_path}/x.csv", tmp_path / "data", workers=1)


def test_a_code_that_is_no_whole_number_is_not_rounded_to_one(tmp_path: Path, monkeypatch):
    (tmp_path / "x.csv").write_text("day,page,done\n2024-01-01,p,1\n2024-01-01,q,\n2024-01-01,q,0.5\n")
    task = task_of(schema=(DAY, PAGE, Field("done", pa.float64(), nullable=True, known="after")), time="day")
    monkeypatch.setattr("vgp.data.tasks.find", lambda name: task)
    with pytest.raises(UserError, match=r"x.csv, line 4: the label 0.5 is none of no, yes"):
        prepare("mine:Mine", f"{tmp_path}/x.csv", tmp_path / "data", workers=1)


def test_the_network_that_comes_with_it_learns(visits_module, write_csv, tmp_path):
    import torch

    from vgp.data import tasks

    name = f"{visits_module}:Visits"
    manifest = prepare(name, str(write_csv(visit_rows())), tmp_path / "data", workers=1)
    task = tasks.load(name, {"hidden": [16], "dropout": 0.0})
    torch.manual_seed(0)
    model = task.model(manifest)
    batch = {k: torch.from_numpy(v) for k, v in open_rows(tmp_path / "data", "train").columns.items()}
    optimizer = task.optimizer(model, 0.03, 0.0)
    losses = []
    for _ in range(30):
        loss = task.loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    share = batch["label"].float().mean()
    best_constant = -(share * share.log() + (1 - share) * (1 - share).log()).item()
    assert losses[-1] < best_constant - 0.05  # the page predicts much
    predicted = task.predict(model.eval(), batch)
    assert predicted.shape == (len(batch["label"]), 2)
    torch.testing.assert_close(predicted.sum(1), torch.ones(len(predicted)))
