"""What the rivals of `benchmarks.preparation` share: the columns, names and days of the flights dataset.

Each rival does the work of the task `flights`: check the key, leave out flights without an outcome, derive the same
features, code the categories, split into train, validation and test, write Parquet, and return the mean of every
number over the train split, by which the results are compared. Only ours also checks every value's type and every
missing one, numbers the rows by MD5 and sorts them by it, so that neither threads nor files change a byte, looks for
columns that tell the label, and writes checksums and statistics.
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


def main(prepare: Callable[[str, Path], dict[str, float]]) -> None:
    """Runs a rival as `python -m benchmarks.flights_RIVAL FOLDER DESTINATION` and prints the means as JSON."""
    source, destination = sys.argv[1:]
    print(json.dumps(prepare(source, Path(destination))))
