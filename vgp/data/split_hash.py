"""A split by a hash of what marks rows as alike: the group, else the key, else all columns known before the outcome.

Never by what is known only after the outcome: rows that differ in their label alone would then go to a split by it,
and the model would be tested on the opposite of what it learned.

Rare classes over splits by a hash: each has about its shares, where chance may leave a split without it.

What goes to a split as one is a unit: a group, a row without a value of the group, a key, alike rows, or a row of a
common kind. A class of many units has
its shares by the hash alone. Of a rarer one as few units as possible leave the split of their hash, those that the hash
would take next first, until enough of them test, train and validate. So new rows move few of those that are there, and
of frequent classes none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import ibis
import ibis.expr.types as ir

from vgp.base.exits import UserError
from vgp.data.engine import ID, Engine, Row
from vgp.data.schema import DAY, Declaration
from vgp.data.shares import NAMES, Kinds, Planned, nonzero, percent, require_labelled
from vgp.data.task import Options

#: Rows that are alike are worth a word from this share of all on.
MANY_ALIKE = 0.05
#: Below this, splits of whole groups are off by more than .4 * sqrt(1 / 64), five percentage points, by chance.
ENOUGH_GROUPS = 64
#: Rows of a common kind go to the splits in steps of a share of this.
STEPS = 1000


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
    column: str = ""

    @classmethod
    def chosen(cls, task: Declaration, unlabelled: str, options: Options) -> "ByHash":
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
        by, notes = self._decided_by(kinds)
        test, validation = (f"{percents / 100:g}" for percents in (self.test_percent, self.validation_percent))
        return {
            "split": {"by": by, "test_share": test, "validation_share": validation},
            "notes": notes,
            "rows_dropped": nonzero({self.unlabelled: sum(unlabelled.values())}),
            "_common": kinds.common if kinds and not self.group else (),
        }

    def assigned(self, rows: ir.Table, planned: Planned) -> ir.IntegerValue:
        kind = cast(ir.IntegerValue, rows["_kind"])
        place = kind % 100
        if planned["_common"]:
            place = kind.isin(planned["_common"]).ifelse(_by_number(rows, kind), place)
        codes = self._codes(cast(ir.IntegerValue, place))
        moved = (("_kind", planned.get("_moved_kinds", {})), ("_row_id", planned.get("_moved_rows", {})))
        for column, by_code in moved:
            for code, units in by_code.items():
                if units:
                    codes = rows[column].isin(units).ifelse(ibis.literal(code, "int8"), codes)
        return codes

    def code(self, place: int) -> int:
        """The split of a row at this place, 0 to 99."""
        return 2 if place < self.test_percent else 1 if place < self.test_percent + self.validation_percent else 0

    def _codes(self, places: ir.IntegerValue) -> ir.IntegerValue:
        """The splits of rows at these places, 0 to 99."""
        ends = (self.test_percent, self.test_percent + self.validation_percent)
        codes = ibis.cases((places < ends[0], 2), (places < ends[1], 1), else_=0)
        return cast(ir.IntegerValue, codes.cast("int8"))

    def _decided_by(self, kinds: Kinds | None) -> tuple[str, tuple[str, ...]]:
        """What decides the split, and what a reader must know of it."""
        if self.group:
            few = kinds is not None and kinds.concentration > 1 / ENOUGH_GROUPS
            name = "day" if self.group == DAY else self.group
            return f"group {name}", (_few_groups(name, kinds),) if kinds and few else ()
        if not kinds:
            return "key", ()
        many = len(kinds.common) or kinds.alike > MANY_ALIKE * kinds.rows
        by = "number within the kind" if kinds.common_rows > kinds.rows / 2 else "columns"
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
                "by one, by their number within the kind, so that their like may be in train and test."
            )
        if kinds.alike > kinds.common_rows:
            text += f" Rows of {'every other' if len(kinds.common) else 'one'} kind stay together."
        return text + " A key or a group, if you declare one, decides instead."


def _by_number(rows: ir.Table, kind: ir.IntegerValue) -> ir.IntegerValue:
    """Places by the number of a row within its kind, in the order of its id: each kind has its shares, to a row.

    Where a kind begins follows from its hash, so that small kinds have them together. More rows of a kind move few of
    the others.
    """
    of_kind = ibis.window(group_by=kind, order_by=rows["_row_id"])
    number = ibis.row_number().over(of_kind)
    rows_of_kind = kind.count().over(ibis.window(group_by=kind))
    return cast(ir.IntegerValue, (number * STEPS + kind // 100 % STEPS) * 100 // (rows_of_kind * STEPS))


def notes_on_ungrouped(group: str, ungrouped: int, rows: int) -> tuple[str, ...]:
    """A sentence on the rows that have no value of the group, if there are any."""
    if not ungrouped:
        return ()
    return (f"{ungrouped:,} of {rows:,} rows have no value of {group}: each of them goes to a split by itself.",)


def _few_groups(group: str, kinds: Kinds) -> str:
    return (
        f"A group goes to one split as a whole, and few make up most of the {kinds.rows:,} rows ({kinds.kinds:,} "
        f"values of {group}): the splits may be far from their shares, and a test on few groups says little."
    )


#: A class of more units is not rare: a fifth of 100 is off by more than 12 once in 500 times.
RARE = 100
#: Units of all rare classes together, which are listed in a query.
MOST_UNITS = 10_000

TRAIN, VALIDATION, TEST = range(len(NAMES))


def moved(engine: Engine, rows: ir.Table, split: ByHash, kinds: Kinds | None) -> Planned:
    """Where units of rare classes go that the hash would have go elsewhere: `_moved_kinds`, and single rows in
    `_moved_rows`.

    Args:
        rows: With `_label`, codes, `_row_id` and `_kind`.
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
    found = engine.read(units.filter(units["label"].isin(rare)).order_by(["label", "unit"])).to_pylist()
    places = _placed(found, rare, split)
    single = {row["unit"] for row in found if row["alone"]}
    kept = {unit: code for unit, code in places.items() if unit in single or code != split.code(unit % 100)}
    kinds_moved, rows_moved = (
        {code: sorted(u for u, c in kept.items() if c == code and (u in single) == is_row) for code in range(3)}
        for is_row in (False, True)
    )
    return {"_moved_kinds": kinds_moved, "_moved_rows": rows_moved}


def _placed(found: Sequence[Row], rare: Sequence[int], split: ByHash) -> dict[int, int]:
    """The split of each unit, the rarest class first: one that has units of several counts for each of them."""
    places: dict[int, int] = {}
    for label in rare:
        units = sorted((row["unit"] for row in found if row["label"] == label), key=lambda unit: (unit % 100, unit))
        free = [unit for unit in units if unit not in places]
        places |= {unit: split.code(unit % 100) for unit in free}
        _mend(units, free, places, split)
    return places


def _mend(units: Sequence[int], free: Sequence[int], places: dict[int, int], split: ByHash) -> None:
    """Changes as few places as leave a class units that test, about by its share, that train, and that validate.

    Args:
        units: Of the class, in the order in which the hash takes them.
        free: Those of them that no rarer class has placed.
    """

    def held(code: int) -> int:
        return sum(places[unit] == code for unit in units)

    def move(target: int, *sources: int, last: bool = False) -> bool:
        fitting = [unit for unit in free if places[unit] in sources]
        places.update(dict.fromkeys(fitting[-1:] if last else fitting[:1], target))
        return bool(fitting)

    share = len(units) * split.test_percent / 100
    while len(units) > 1 and held(TEST) < max(1, share / 2) and move(TEST, VALIDATION, TRAIN):
        pass
    while held(TEST) > 1.5 * share + 1 and move(TRAIN, TEST, last=True):
        pass
    while 2 * held(TRAIN) < len(units) and (
        move(TRAIN, VALIDATION, last=True)
        or ((held(TEST) > max(1, share / 2) or len(units) == 1) and move(TRAIN, TEST, last=True))
    ):
        pass
    if not held(VALIDATION) and len(units) * split.validation_percent >= 100:
        move(VALIDATION, TRAIN)
