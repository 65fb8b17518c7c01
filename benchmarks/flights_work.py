"""The common work of the rivals of `benchmarks.preparation`: columns, names and days of the flights dataset.

Each rival does the work of the task `flights`: check the key, drop flights without an outcome, derive equal features,
code the categories, split into train, validation and test, write Parquet, and return the mean of every number over the
train split, by which the results are compared. With `ordered` it also numbers the rows by the MD5 of their key and
sorts each split by that number, so that neither threads nor the order of files change the position of a row.

Only our task also checks the type of every value and every missing value, looks for columns that reveal the label or
the future, computes the first features twice for that, and writes checksums and statistics.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vgp.data.split_parts import mix_bits

#: The columns that the features need, with their types for DuckDB and Polars.
INTEGERS = (
    "year", "month", "day", "dep_delay", "sched_dep_time", "sched_arr_time", "arr_delay", "flight", "distance",
    "minute",
)  # fmt: skip
STRINGS = ("carrier", "origin", "dest", "time_hour")
COLUMNS = [*INTEGERS, *STRINGS]
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BANDS = ("night", "morning", "afternoon", "evening")
CATEGORIES = ("carrier", "origin", "dest", "part_of_day", "weekday")
#: The number of a flight's month, from 1 for January of the data's first year.
MONTH = "((year - 2013) * 12 + month)"


@dataclass(frozen=True)
class Months:
    """Months of `years` years of flights: those up to `train` train, those after them up to `test` test."""

    years: int

    @property
    def train(self) -> int:
        return 6 * self.years

    @property
    def test(self) -> int:
        return 7 * self.years

    def options(self) -> dict[str, str]:
        """Returns these months as options of the task `flights`."""
        first, last, then, end = (_format_month(number) for number in (1, self.train, self.train + 1, self.test))
        return {"train": f"{first}:{last}", "test": f"{then}:{end}"}

    def validation(self) -> list[str]:
        """Returns the validation days of the task: the twentieth of the training days with the smallest hashes."""
        end = np.datetime64(_format_month(self.train)) + 1
        days = np.arange(np.datetime64(_format_month(1)).astype("M8[D]"), end.astype("M8[D]"))
        present = np.array([day for day in days if not str(day).endswith("-02-29")])  # 2013 was no leap year
        order = np.argsort(mix_bits(present.astype(np.int64).view(np.uint64)))
        return sorted(str(day) for day in present[order[: len(present) // 20]])


def _format_month(number: int) -> str:
    return f"{2013 + (number - 1) // 12}-{(number - 1) % 12 + 1:02}"


def find_files(source: str) -> tuple[str, bool]:
    """Returns a glob of all files of a folder of CSV or Parquet files, and whether they are Parquet."""
    parquet = any(Path(source).glob("*.parquet"))
    return f"{source}/*.{'parquet' if parquet else 'csv'}", parquet


def compute_md5_number(hour: str) -> str:
    """Returns the id of a row, as defined in `vgp.data.identity`, as an SQL expression of DuckDB.

    Args:
        hour: The expression of a flight's hour, in hours since 1970-01-01.
    """
    text = f"concat({hour} * 3600000000, '|', length(carrier), ':', carrier, '|', flight)"
    low, high = 0x0F0F0F0F0F0F0F, 0x0F0F0F0F0F0F0F0F
    return f"(((md5_number({text}) & {low}) << 4) | ((md5_number({text}) >> 4) & {high}))::UBIGINT::BIGINT"


def main(prepare: Callable[[str, Path, Months, bool], dict[str, float]]) -> None:
    """Runs `python -m benchmarks.flights_RIVAL FOLDER DESTINATION YEARS [ordered]` and prints the means as JSON."""
    source, destination, years, *ordered = sys.argv[1:]
    print(json.dumps(prepare(source, Path(destination), Months(int(years)), bool(ordered))))
