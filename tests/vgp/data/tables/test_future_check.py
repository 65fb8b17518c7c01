"""Features that look ahead, each in its own way, and features that do not."""

from datetime import date, datetime, timedelta
from functools import partial
from typing import ClassVar

import ibis
import numpy as np
import pyarrow as pa
import pytest

from tests.vgp.data.computed import engine_of
from vgp.base.exits import UserError
from vgp.data.events import Events, hours
from vgp.data.identity import with_ids
from vgp.data.schema import Field
from vgp.data.tables import features, future_check
from vgp.data.tables.preparation import count_rows
from vgp.data.tabular import TabularTask

DRAW = np.random.default_rng(0)
ROWS = 600


class Visits(TabularTask):
    schema = (
        Field("visitor", pa.int64()),
        Field("time", pa.timestamp("us", tz="UTC")),
        Field("page", pa.string()),
        Field("seconds", pa.float64(), nullable=True),
        Field("spent", pa.int64(), known="after"),
        Field("bought", pa.bool_(), nullable=True, known="after"),
    )
    key = ("visitor", "time")
    time = "time"
    target = "bought"
    settings: ClassVar = {**TabularTask.settings, "test": "10 days"}

    def features(self, rows):
        return {"page": rows.page, "made": type(self).made(rows)}


def visits(count: int = ROWS) -> pa.Table:
    """In no order."""
    moments = [datetime(2024, 1, 1) + timedelta(minutes=int(m)) for m in DRAW.permutation(count) * 97]
    return pa.table(
        {
            "visitor": DRAW.integers(0, 30, count),
            "time": pa.array(moments, pa.timestamp("us", tz="UTC")),
            "page": DRAW.choice(["home", "offer", ""], count),
            "seconds": pa.array(DRAW.normal(60, 20, count), mask=DRAW.random(count) < 0.1),
            "spent": DRAW.integers(0, 100, count),
            "bought": pa.array(DRAW.random(count) < 0.4, mask=DRAW.random(count) < 0.05),
        }
    )


def kept(task: TabularTask, table: pa.Table, scratch) -> pa.Table:
    with engine_of(table, scratch, task.schema, key=task.key) as engine:
        rows = with_ids(engine, engine.source(), task.key, [field.name for field in task.schema])
        marked = features.add_kinds(task, features.add_marks(task, rows, engine.dialect), engine.dialect)
        counted = count_rows(engine, task, marked)
        planned = task.split.plan(counted.labelled, counted.unlabelled, None)
        past = future_check.compute_past(task, engine, marked, planned)
        compared = (past.moment, past.below) if past else None
        joined = features.join_events(task, engine, marked)
        finished = features.finish_rows(task, joined, planned, engine.dialect, compared)
        batches = engine.batches(finished)
        return pa.Table.from_batches(past.drop_compared_rows(batches) if past else batches)


by_visitor = partial(ibis.window, group_by="visitor", order_by="time")
AHEAD = {
    "a mean over all": lambda rows: rows.seconds - rows.seconds.mean(),
    "a rank among all": lambda rows: rows.seconds.rank(),
    "the next row": lambda rows: rows.seconds.lead().over(by_visitor()),
    "a window that ends later": lambda rows: rows.seconds.sum().over(by_visitor(preceding=2, following=1)),
    "a mean of the visitor": lambda rows: rows.seconds.mean().over(ibis.window(group_by="visitor")),
    "how often the page occurs": lambda rows: rows.page.count().over(ibis.window(group_by="page")),
    "the last row": lambda rows: rows.seconds.last().over(by_visitor(preceding=None, following=None)),
    "days until the end": lambda rows: rows.time.max().epoch_seconds() - rows.time.epoch_seconds(),
    "a text of the next row": lambda rows: rows.page.lead().over(by_visitor()).fill_null("none"),
}
BEFORE = {
    "the row itself": lambda rows: rows.seconds,
    "the row before": lambda rows: rows.seconds.lag().over(by_visitor()),
    "a running sum of floats": lambda rows: rows.seconds.sum().over(by_visitor(preceding=None, following=0)),
    "a mean of the ten before": lambda rows: rows.seconds.mean().over(by_visitor(preceding=(10, 1))),
    "the number of the visit": lambda rows: ibis.row_number().over(
        ibis.window(group_by=rows.visitor, order_by=rows.time)
    ),
    "a constant": lambda rows: ibis.literal(1.5),
    "a missing value": lambda rows: ibis.null("float64"),
}


@pytest.mark.parametrize("name", AHEAD)
def test_a_feature_that_looks_into_the_future_is_refused_with_a_row_and_the_moment(name, tmp_path):
    task = type("Mine", (Visits,), {"made": AHEAD[name]})()
    with pytest.raises(UserError) as refused:
        kept(task, visits(), tmp_path)
    assert "the feature made of the row in x.csv, line" in str(refused.value)
    assert "changes when the rows from 2024-01-" in str(refused.value) and "into the future" in str(refused.value)


@pytest.mark.parametrize("name", BEFORE)
def test_a_feature_of_the_row_and_those_before_is_not(name, tmp_path):
    task = type("Mine", (Visits,), {"made": BEFORE[name]})()
    table = visits()
    made = kept(task, table, tmp_path)
    assert features.PAST not in made.column_names
    assert made.num_rows == ROWS - table["bought"].null_count  # none twice, none that was only compared


def events_of(hour, value="spent", place="page"):
    def events(self, rows):
        return {"shop": Events(rows.mutate(hour=hour(rows)), (place,), ((24, 1), (2, 1)), value=value)}

    return events


@pytest.mark.parametrize(
    ("hour", "ahead"),
    [
        (lambda rows: hours(rows.time), False),
        (lambda rows: hours(rows.time) + 3, False),
        (lambda rows: hours(rows.time) - 30, True),  # as if it had been known long before
    ],
)
def test_events_that_are_put_before_their_time_are_refused(hour, ahead, tmp_path):
    made = lambda rows: rows.shop_mean_24_1  # noqa: E731
    task = type("Mine", (Visits,), {"made": made, "events": events_of(hour)})()
    if not ahead:
        assert kept(task, visits(), tmp_path)["made"].null_count < ROWS / 2
        return
    with pytest.raises(UserError, match="the feature made of the row in .* looks into the future"):
        kept(task, visits(), tmp_path)


def test_several_features_are_named(tmp_path):
    def ahead(self, rows):
        return {"page": rows.page, "one": rows.seconds.mean(), "two": rows.seconds.sum()}

    task = type("Mine", (Visits,), {"features": ahead})()
    with pytest.raises(
        UserError, match="the features one, two of the row in .* change when .* they look into the future"
    ):
        kept(task, visits(), tmp_path)


class Dated(Visits):
    schema = (Field("time", pa.date32()), *Visits.schema[2:])
    key = ()

    def features(self, rows):
        return {"page": rows.page, "made": rows.seconds - rows.seconds.mean()}


def test_dates_and_tables_without_a_key_are_looked_at_too(tmp_path):
    table = visits().drop_columns(["visitor"])
    dated = table.set_column(0, "time", table["time"].cast(pa.timestamp("us")).cast(pa.date32()))
    with pytest.raises(UserError, match=r"when the rows from 2024-01-\d\d on are left out"):
        kept(Dated(), dated, tmp_path)


@pytest.mark.parametrize("count", [2, 3, 40])
def test_few_rows_are_no_trouble(count, tmp_path):
    table = visits(count)
    moments = [datetime(2024, 1, 1 + i % 2, i // 2) for i in range(count)]
    table = table.set_column(1, "time", pa.array(moments, pa.timestamp("us", tz="UTC")))
    table = table.set_column(5, "bought", pa.array([i % 4 < 2 for i in range(count)]))
    task = type("Mine", (Visits,), {"made": lambda rows: rows.seconds})({"train": "1 days", "test": "1 days"})
    assert kept(task, table, tmp_path).num_rows == count


def test_the_moment_leaves_at_most_so_many_rows_before_it(tmp_path, monkeypatch):
    monkeypatch.setattr(future_check, "MOST_ROWS", 50)
    task = type("Mine", (Visits,), {"made": BEFORE["the row itself"]})()
    with engine_of(visits(), tmp_path, task.schema, key=task.key) as engine:
        rows = with_ids(engine, engine.source(), task.key, [])
        marked = features.add_marks(task, rows, engine.dialect)
        past = future_check.compute_past(task, engine, marked, {"_spans": (((0, 10**6),), ((0, 1),)), "_held_out": []})
        assert 25 < past.rows.num_rows <= 50
        with pytest.raises(UserError):
            kept(type("Mine", (Visits,), {"made": AHEAD["the next row"]})(), visits(), tmp_path / "other")


def test_a_train_window_that_begins_late_is_compared_by_earlier_rows(tmp_path):
    task = type("Mine", (Visits,), {"made": AHEAD["the next row"]})({"train": "2 days", "test": "2 days"})
    with pytest.raises(UserError, match="looks into the future"):
        kept(task, visits(), tmp_path)


def test_days_of_long_ago_and_far_ahead(tmp_path):
    table = visits()
    times = table["time"].to_pylist()
    times[0], times[1] = datetime(1, 1, 1), datetime(9999, 12, 31, 23)
    task = type("Mine", (Visits,), {"made": AHEAD["the next row"]})(
        {"train": "2024-01-05:2024-01-20", "test": "10 days"}
    )
    with pytest.raises(UserError, match="looks into the future"):
        kept(task, table.set_column(1, "time", pa.array(times, pa.timestamp("us", tz="UTC"))), tmp_path)
    assert date.max.year == 9999
