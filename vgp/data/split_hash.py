"""The split by a hash of the group, else of the key, else of all columns known before the outcome.

Columns known only after the outcome never decide: rows that differ only in their label would go to a split by their
label, and the model would be tested on the opposite of its train rows.

A unit goes to one split as a whole: a group, a row without a group, a key, equal rows, or a row of a common kind. The
hash alone splits a frequent class. Of a rare class, which chance may leave out of a split, as few units as possible
leave the split of their hash, nearest hash first, until enough of them test, train and validate. So new rows move few
existing rows of rare classes, and none of frequent ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import ibis
import ibis.expr.types as ir

from vgp.base.exits import UserError
from vgp.data.engine import ID, Engine, Row
from vgp.data.schema import DAY, Declaration
from vgp.data.split_parts import NAMES, Kinds, Planned, nonzero, parse_percent, require_labelled
from vgp.data.task import Options

#: The share of rows with an equal row from which on a note reports them.
MANY_ALIKE = 0.05
#: With fewer groups, splits of whole groups are off by more than .4 * sqrt(1 / 64), five percentage points, by chance.
ENOUGH_GROUPS = 64
#: The number of positions, chosen by its hash, at which a common kind may start its assignment to splits.
STEPS = 1000


@dataclass(frozen=True)
class ByHash:
    """The split by shares of the groups, keys or rows; the mark of every row is 0."""

    #: The declared columns that decide: the group, else the key, else all columns known before the outcome. Empty if
    #: the group is a computed feature.
    columns: tuple[str, ...]
    group: str
    key: tuple[str, ...]
    test_percent: int
    validation_percent: int
    unlabelled: str
    column: str = ""

    @classmethod
    def choose(cls, task: Declaration, unlabelled: str, options: Options) -> "ByHash":
        test, validation = (parse_percent(name, options[name]) for name in ("test_share", "validation_share"))
        if not test or test + validation >= 100:
            raise UserError(
                f"test_share = {test / 100:g}, validation_share = {validation / 100:g}: test_share must be above 0 "
                "and their sum below 1, so that rows test and rows train."
            )
        columns = tuple(name for name in task.key if name in task.before) or task.before
        if task.group:
            columns = tuple(name for name in (task.group,) if name in task.before)
        return cls(columns, task.group, task.key, test, validation, unlabelled)

    @property
    def counts_kinds(self) -> bool:
        """Whether rows may be equal in the deciding columns, which a key rules out."""
        return bool(self.columns) and (bool(self.group) or self.columns != self.key)

    @property
    def deciding(self) -> tuple[str, ...]:
        return self.columns or ((self.group,) if self.group else ())

    def mark(self, rows: ir.Table, day: ir.IntegerValue | None) -> ir.IntegerValue:
        return cast(ir.IntegerValue, ibis.literal(0, "int64"))

    def wrong(self, row: Row) -> str:
        raise AssertionError("every row has a mark")

    def plan(self, labelled: Mapping[int, int], unlabelled: Mapping[int, int], kinds: Kinds | None) -> Planned:
        require_labelled(any(labelled.values()), "the input", self.unlabelled)
        by, notes = self._describe_value(kinds)
        test, validation = (f"{percents / 100:g}" for percents in (self.test_percent, self.validation_percent))
        return {
            "split": {"by": by, "test_share": test, "validation_share": validation},
            "notes": notes,
            "rows_dropped": nonzero({self.unlabelled: sum(unlabelled.values())}),
            "_common": kinds.common if kinds and not self.group else (),
        }

    def assign(self, rows: ir.Table, planned: Planned) -> ir.IntegerValue:
        kind = cast(ir.IntegerValue, rows["_kind"])
        place = kind % 100
        if planned["_common"]:
            place = kind.isin(planned["_common"]).ifelse(_place_by_number(rows, kind), place)
        codes = self._codes(cast(ir.IntegerValue, place))
        moved = (("_kind", planned.get("_moved_kinds", {})), ("_row_id", planned.get("_moved_rows", {})))
        for column, by_code in moved:
            for code, units in by_code.items():
                if units:
                    codes = rows[column].isin(units).ifelse(ibis.literal(code, "int8"), codes)
        return codes

    def code(self, place: int) -> int:
        """Returns the split of a row at this place, 0 to 99."""
        return 2 if place < self.test_percent else 1 if place < self.test_percent + self.validation_percent else 0

    def _codes(self, places: ir.IntegerValue) -> ir.IntegerValue:
        """Returns the splits of rows at these places, 0 to 99."""
        ends = (self.test_percent, self.test_percent + self.validation_percent)
        codes = ibis.cases((places < ends[0], 2), (places < ends[1], 1), else_=0)
        return cast(ir.IntegerValue, codes.cast("int8"))

    def _describe_value(self, kinds: Kinds | None) -> tuple[str, tuple[str, ...]]:
        """Returns the name of the value that decides the split, and notes on it."""
        if self.group:
            few = kinds is not None and kinds.concentration > 1 / ENOUGH_GROUPS
            name = "day" if self.group == DAY else self.group
            return f"group {name}", (_few_groups_message(name, kinds),) if kinds and few else ()
        if not kinds:
            return "key", ()
        many = len(kinds.common) or kinds.alike > MANY_ALIKE * kinds.rows
        by = "number within the kind" if kinds.common_rows > kinds.rows / 2 else "columns"
        return by, (self._describe_equal_rows(kinds),) if many else ()

    def _describe_equal_rows(self, kinds: Kinds) -> str:
        where = f"the columns of the key ({', '.join(self.columns)})" if self.key else "all columns"
        text = (
            f"{kinds.alike:,} of {kinds.rows:,} rows are equal to another row in {where} known before the outcome: "
            f"there are {kinds.kinds:,} kinds of rows, and no key or group that links them."
        )
        if len(kinds.common):
            text += (
                f" Rows of common kinds ({len(kinds.common):,} kinds, {kinds.common_rows:,} rows) go to the splits one "
                "by one, by their number within the kind, so equal rows may be in train and test."
            )
        if kinds.alike > kinds.common_rows:
            text += f" Rows of {'every other' if len(kinds.common) else 'one'} kind stay together."
        return text + " If you declare a key or a group, it decides instead."


def _place_by_number(rows: ir.Table, kind: ir.IntegerValue) -> ir.IntegerValue:
    """Returns places by the number of a row within its kind, in the order of ids, so each kind has exact shares.

    The hash of a kind decides the place of its first row, so that small kinds together have their shares. New rows of a
    kind move few existing ones.
    """
    of_kind = ibis.window(group_by=kind, order_by=rows["_row_id"])
    number = ibis.row_number().over(of_kind)
    rows_of_kind = kind.count().over(ibis.window(group_by=kind))
    return cast(ir.IntegerValue, (number * STEPS + kind // 100 % STEPS) * 100 // (rows_of_kind * STEPS))


def describe_ungrouped(group: str, ungrouped: int, rows: int) -> tuple[str, ...]:
    """Returns a note on the rows without a value of the group; () if there are none."""
    if not ungrouped:
        return ()
    return (f"{ungrouped:,} of {rows:,} rows have no value of {group}: each of them goes to a split by itself.",)


def _few_groups_message(group: str, kinds: Kinds) -> str:
    return (
        f"A group goes to one split as a whole, and few groups hold most of the {kinds.rows:,} rows ({kinds.kinds:,} "
        f"values of {group}): the splits may be far from their shares, and a test on few groups is not reliable."
    )


#: Maximum number of units (rows or groups) of a rare class. With 100, a test split of a fifth is off by more than 12
#: in one of 500 cases.
RARE = 100
#: Maximum number of units of all rare classes together, because one query lists them.
MOST_UNITS = 10_000

TRAIN, VALIDATION, TEST = range(len(NAMES))


def move_rare_units(engine: Engine, rows: ir.Table, split: ByHash, kinds: Kinds | None) -> Planned:
    """Returns the new splits of units of rare classes that leave the split of their hash: kinds in `_moved_kinds`, and
    single rows in `_moved_rows`.

    Args:
        rows: The rows with `_label` (codes), `_row_id` and `_kind`.
    """
    labelled = rows.filter(rows["_label"].notnull())
    counted = engine.read(labelled.group_by(label=labelled["_label"]).agg(rows=labelled.count())).to_pylist()
    together = kinds.alike - kinds.common_rows * (not split.group) if kinds else 0
    small = [row["label"] for row in counted if row["rows"] - together <= RARE]
    if not small:
        return {}
    rows = labelled.filter(labelled["_label"].isin(small))
    alone = rows["_kind"].isin(kinds.common) if kinds and len(kinds.common) and not split.group else ibis.literal(False)
    unit = alone.ifelse(rows[ID], rows["_kind"])
    units = rows.select(label=rows["_label"], unit=unit, alone=alone)
    if split.counts_kinds:
        units = units.distinct()
    counted = engine.read(units.group_by("label").agg(units=units.count())).to_pylist()
    rare, total = list[int](), 0
    for label, count in sorted(((row["label"], row["units"]) for row in counted), key=lambda pair: pair[::-1]):
        total += count
        if count <= RARE and total <= MOST_UNITS:
            rare.append(label)
    if not rare:
        return {}
    rare_units = engine.read(units.filter(units["label"].isin(rare)).order_by(["label", "unit"])).to_pylist()
    places = _place_units(rare_units, rare, split)
    single = {row["unit"] for row in rare_units if row["alone"]}
    changes = {unit: code for unit, code in places.items() if unit in single or code != split.code(unit % 100)}
    kinds_moved, rows_moved = (
        {code: sorted(u for u, c in changes.items() if c == code and (u in single) == is_row) for code in range(3)}
        for is_row in (False, True)
    )
    return {"_moved_kinds": kinds_moved, "_moved_rows": rows_moved}


def _place_units(rows: Sequence[Row], rare: Sequence[int], split: ByHash) -> dict[int, int]:
    """Returns the split of each unit; places the rarest class first, and counts a unit for each of its classes."""
    places: dict[int, int] = {}
    for label in rare:
        units = sorted((row["unit"] for row in rows if row["label"] == label), key=lambda unit: (unit % 100, unit))
        free = [unit for unit in units if unit not in places]
        places |= {unit: split.code(unit % 100) for unit in free}
        _balance(units, free, places, split)
    return places


def _balance(units: Sequence[int], free: Sequence[int], places: dict[int, int], split: ByHash) -> None:
    """Changes as few places as possible so that units of a class test (about by its share), train and validate.

    Args:
        units: The units of the class, in the order of their hashes.
        free: The units that no rarer class has placed.
    """

    def count(code: int) -> int:
        return sum(places[unit] == code for unit in units)

    def move(target: int, *sources: int, last: bool = False) -> bool:
        fitting = [unit for unit in free if places[unit] in sources]
        places.update(dict.fromkeys(fitting[-1:] if last else fitting[:1], target))
        return bool(fitting)

    share = len(units) * split.test_percent / 100
    while len(units) > 1 and count(TEST) < max(1, share / 2) and move(TEST, VALIDATION, TRAIN):
        pass
    while count(TEST) > 1.5 * share + 1 and move(TRAIN, TEST, last=True):
        pass
    while 2 * count(TRAIN) < len(units) and (
        move(TRAIN, VALIDATION, last=True)
        or ((count(TEST) > max(1, share / 2) or len(units) == 1) and move(TRAIN, TEST, last=True))
    ):
        pass
    if not count(VALIDATION) and len(units) * split.validation_percent >= 100:
        move(VALIDATION, TRAIN)
