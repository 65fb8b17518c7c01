"""What the rivals of `benchmarks.preparation` share: the columns, names and days of the flights dataset.

Each rival does the work of the task `flights`: check the key, leave out flights without an outcome, derive the same
features, code the categories, split into train, validation and test, write Parquet, and return the mean of every
number over the train split, by which the results are compared. Told to be `ordered`, it also numbers the rows by the
MD5 of their key and sorts each split by that, so that neither threads nor the order of files change a row's place.
Only ours also checks every value's type and every missing one, looks for columns that tell the label or the future,
computes the first features twice for that, and writes checksums and statistics.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

#: The columns that the features need, with the types that DuckDB and Polars are told.
INTEGERS = (
    "year", "month", "day", "dep_delay", "sched_dep_time", "sched_arr_time", "arr_delay", "flight", "distance",
    "minute",
)  # fmt: skip
STRINGS = ("carrier", "origin", "dest", "time_hour")
COLUMNS = [*INTEGERS, *STRINGS]
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BANDS = ("night", "morning", "afternoon", "evening")
CATEGORIES = ("carrier", "origin", "dest", "part_of_day", "weekday")
#: The days that the task holds out of January to June; a constant, since only the speed is compared.
VALIDATION = [
    "2013-01-10", "2013-02-02", "2013-02-27", "2013-02-28", "2013-03-27", "2013-05-05", "2013-06-09",
    "2013-06-12", "2013-06-27",
]  # fmt: skip


def reading(source: str) -> tuple[str, bool]:
    """A glob of all files of a folder of CSV or Parquet files, and whether they are Parquet."""
    parquet = any(Path(source).glob("*.parquet"))
    return f"{source}/*.{'parquet' if parquet else 'csv'}", parquet


def md5_number(hour: str) -> str:
    """The id of a row, as `training.data.identity` states it, in DuckDB's SQL.

    Args:
        hour: The expression of a flight's hour, in hours since 1970-01-01.
    """
    text = f"concat({hour} * 3600000000, '|', length(carrier), ':', carrier, '|', flight)"
    low, high = 0x0F0F0F0F0F0F0F, 0x0F0F0F0F0F0F0F0F
    return f"(((md5_number({text}) & {low}) << 4) | ((md5_number({text}) >> 4) & {high}))::UBIGINT::BIGINT"


def main(prepare: Callable[[str, Path, bool], dict[str, float]]) -> None:
    """Runs `python -m benchmarks.flights_RIVAL FOLDER DESTINATION [ordered]` and prints the means as JSON."""
    source, destination, *ordered = sys.argv[1:]
    print(json.dumps(prepare(source, Path(destination), bool(ordered))))
