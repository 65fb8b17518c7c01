"""A split by a hash of what marks rows as alike: the group, else the key, else all columns known before the outcome.

Never by what is known only after the outcome: rows that differ in their label alone would then go to a split by it,
and the model would be tested on the opposite of what it learned.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from training.data import keys
from training.data.alike import Kinds
from training.data.declaration import Declaration
from training.data.keys import Hashes
from training.data.shares import nonzero, percent, require_labelled
from training.errors import UserError

#: Rows that are alike are worth a word from this share of all on.
MANY_ALIKE = 0.05
#: Below this, splits of whole groups are off by more than .4 * sqrt(1 / 64), five percentage points, by chance.
ENOUGH_GROUPS = 64


@dataclass(frozen=True)
class ByHash:
    """Shares of the groups, keys or rows; the mark of every row is 0."""

    #: The declared columns that decide: the group, else the key, else all that are known before the outcome. Empty if
    #: the group is a feature of the task's own making.
    columns: tuple[str, ...]
    group: str
    key: tuple[str, ...]
    test_percent: int
    validation_percent: int
    unlabelled: str
    column = ""

    @classmethod
    def chosen(cls, task: Declaration, unlabelled: str, options: Mapping[str, Any]) -> "ByHash":
        test, validation = (percent(name, options[name]) for name in ("test_share", "validation_share"))
        if not test or test + validation >= 100:
            raise UserError(
                f"test_share = {test / 100:g}, validation_share = {validation / 100:g}: rows must test and rows must "
                "train, so test_share is above 0, and both are below 1 in sum."
            )
        columns = tuple(name for name in task.key if name in task.before) or task.before
        if task.group:
            columns = tuple(name for name in (task.group,) if name in task.before)
        return cls(columns, task.group, task.key, test, validation, unlabelled)

    @property
    def counts_kinds(self) -> bool:
        """Whether rows may be alike in what decides: not with a key, which occurs once."""
        return bool(self.columns) if self.group else not self.key or self.columns != self.key

    def marks(self, table: pa.Table, days: Callable[[pa.Table], NDArray[np.int32]]) -> NDArray[np.int32]:
        return np.zeros(table.num_rows, np.int32)

    def hashes(self, table: pa.Table) -> Hashes:
        """The hash of the deciding columns of each row, uint64 (rows,)."""
        columns = [table[name].combine_chunks() for name in self.columns]
        return keys.hashed(columns) if columns else np.zeros(table.num_rows, np.uint64)

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> dict[str, Any]:
        require_labelled(any(labelled.values()), "the input", self.unlabelled)
        by, notes = self._decided_by(kinds)
        test, validation = (f"{percents / 100:g}" for percents in (self.test_percent, self.validation_percent))
        return {
            "split": {"by": by, "test_share": test, "validation_share": validation},
            "notes": notes,
            "rows_dropped": nonzero({self.unlabelled: sum(unlabelled.values())}),
            "_common": kinds.common if kinds else np.zeros(0, np.uint64),
        }

    def assign(
        self, table: pa.Table, marks: NDArray[np.int32], group: pa.Array | None, first_row: int,
        statistics: Mapping[str, Any],
    ) -> NDArray[np.int8]:  # fmt: skip
        if group is not None:
            return self._by_hash(self.hashes(table) if self.columns else keys.hashed([group]))
        kinds = self.hashes(table)
        common = np.isin(kinds, statistics["_common"])
        return np.where(common, self.by_position(first_row, len(kinds)), self._by_hash(kinds))

    def by_position(self, first: int, rows: int) -> NDArray[np.int8]:
        """Splits by chance, but the same for the same position, and with the exact shares in each short run."""
        percent_a_row = gcd(100, self.test_percent, self.validation_percent)
        length = 100 // percent_a_row
        start, stop = first // length, -(-(first + rows) // length)
        draws = keys.mixed(np.arange(start * length, stop * length, dtype=np.uint64)).reshape(-1, length)
        ranks = draws.argsort(axis=1).argsort(axis=1).reshape(-1)
        return self._codes(ranks[first - start * length :][:rows] * percent_a_row)

    def _by_hash(self, hashes: Hashes) -> NDArray[np.int8]:
        return self._codes(hashes % np.uint64(100))

    def _codes(self, places: NDArray[Any]) -> NDArray[np.int8]:
        """The splits of rows at these places, 0 to 99."""
        ends = (self.test_percent, self.test_percent + self.validation_percent)
        return np.select([places < ends[0], places < ends[1]], [2, 1], 0).astype(np.int8)

    def _decided_by(self, kinds: Kinds | None) -> tuple[str, tuple[str, ...]]:
        """What decides the split, and what a reader must know of it."""
        if self.group:
            few = kinds is not None and kinds.concentration > 1 / ENOUGH_GROUPS
            return f"group {self.group}", (_few_groups(self.group, kinds),) if kinds and few else ()
        if not kinds:
            return "key", ()
        many = len(kinds.common) or kinds.alike > MANY_ALIKE * kinds.rows
        by = "position" if kinds.common_rows > kinds.rows / 2 else "columns"
        return by, (self._alike(kinds),) if many else ()

    def _alike(self, kinds: Kinds) -> str:
        where = f"the columns of the key ({', '.join(self.columns)})" if self.key else "all columns"
        text = (
            f"{kinds.alike:,} of {kinds.rows:,} rows are like another in {where} known before the outcome: there are "
            f"{kinds.kinds:,} kinds of rows, and no key or group tells which belong together."
        )
        if len(kinds.common):
            text += (
                f" Rows of common kinds ({len(kinds.common):,} kinds, {kinds.common_rows:,} rows) go to the splits one "
                "by one, by their position in the input, so that their like may be in train and test."
            )
        if kinds.alike > kinds.common_rows:
            text += f" Rows of {'every other' if len(kinds.common) else 'one'} kind stay together."
        return text + " A key or a group, if you declare one, decides instead."


def _few_groups(group: str, kinds: Kinds) -> str:
    return (
        f"A group goes to one split as a whole, and few make up most of the {kinds.rows:,} rows ({kinds.kinds:,} "
        f"values of {group}): the splits may be far from their shares, and a test on few groups says little."
    )
