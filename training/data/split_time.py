"""A split by windows of time; of the train window whole days validate."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from training.data import keys
from training.data.alike import Kinds
from training.data.declaration import Declaration
from training.data.periods import Spans, date_of, spoken
from training.data.shares import nonzero, percent, require_labelled
from training.data.windows import Windows, windows
from training.errors import UserError


@dataclass(frozen=True)
class ByTime:
    """Windows of days; the mark of a row is its day, counted from 1970-01-01."""

    windows: Windows
    validation_percent: int
    time: str
    unlabelled: str
    column = ""

    @classmethod
    def chosen(cls, task: Declaration, unlabelled: str, options: Mapping[str, Any]) -> "ByTime":
        pair = windows(options["train"], options["test"])
        return cls(pair, percent("validation_share", options["validation_share"]), task.time, unlabelled)

    def marks(self, table: pa.Table, days: Callable[[pa.Table], NDArray[np.int32]]) -> NDArray[np.int32]:
        return days(table)

    def mark(self, rows, day):
        return day

    def assigned(self, table, planned):
        import ibis

        train, test = planned["_spans"]
        mark = table["_mark"]
        held = [(date.fromisoformat(d) - date(1970, 1, 1)).days for d in planned["validation_days"]]

        def inside(spans):
            return ibis.or_(*[(mark >= a) & (mark < b) for a, b in spans])

        return ibis.cases((inside(test), 2), (inside(train) & mark.isin(held), 1), (inside(train), 0), else_=-1).cast(
            "int8"
        )

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> dict[str, Any]:
        present = labelled.keys() | unlabelled.keys()
        if not present:
            raise UserError("the input has no rows: there is nothing to learn or to test.")
        train, test = self.windows.resolve(present)
        for spans in (train, test):
            require_labelled(any(_inside(day, spans) for day in labelled), spoken(spans), self.unlabelled)
        without = sum(n for day, n in unlabelled.items() if _inside(day, (*train, *test)))
        outside = sum(n for days in (labelled, unlabelled) for day, n in days.items()
                      if not _inside(day, (*train, *test)))  # fmt: skip
        return {
            "split": {"by": f"time ({self.time})", "train": spoken(train), "test": spoken(test)},
            "validation_days": self._validation([day for day in labelled if _inside(day, train)]),
            "rows_dropped": nonzero({self.unlabelled: without, "outside the windows": outside}),
            "_spans": (train, test),
        }

    def assign(
        self, table: pa.Table, marks: NDArray[np.int32], group: pa.Array | None, first_row: int,
        statistics: Mapping[str, Any],
    ) -> NDArray[np.int8]:  # fmt: skip
        train, test = statistics["_spans"]
        held_out = set(statistics["validation_days"])
        days, position = np.unique(marks, return_inverse=True)
        codes = [
            -1 if not _inside(day, (*train, *test))
            else 2 if _inside(day, test) else 1 if date_of(day).isoformat() in held_out else 0
            for day in days.tolist()
        ]  # fmt: skip
        return np.array(codes, np.int8)[position]

    def _validation(self, train_days: Collection[int]) -> list[str]:
        """The share of the days, at least one of two: those whose hashes are the smallest."""
        days: Sequence[int] = sorted(train_days)
        fewest = int(len(days) > 1 and self.validation_percent > 0)
        count = max(len(days) * self.validation_percent // 100, fewest)
        order = np.argsort(keys.mixed(np.array(days, np.int64).view(np.uint64)))
        return sorted(date_of(days[i]).isoformat() for i in order[:count])


def _inside(day: int, spans: Spans) -> bool:
    return any(start <= day < end for start, end in spans)
