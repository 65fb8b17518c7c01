"""Rare classes over splits by a hash: each has about its shares, where chance may leave a split without it.

What goes to a split as one is a unit: a group, a key, alike rows, or a row of a common kind. A class of many units has
its shares by the hash alone. Of a rarer one as few units as possible leave the split of their hash, those that the hash
would take next first, until enough of them test, train and validate. So new rows move few of those that are there, and
of frequent classes none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import ibis
import ibis.expr.types as ir

from vgp.data.engine import ID, Engine
from vgp.data.shares import NAMES, Kinds
from vgp.data.split_hash import ByHash

#: A class of more units is not rare: a fifth of 100 is off by more than 12 once in 500 times.
RARE = 100
#: Units of all rare classes together, which are listed in a query.
MOST_UNITS = 10_000

TRAIN, VALIDATION, TEST = range(len(NAMES))
#: Units by the code of their split.
Moved = dict[int, list[int]]


def moved(engine: Engine, rows: ir.Table, split: ByHash, kinds: Kinds | None) -> dict[str, Moved]:
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
    return {
        name: {code: sorted(u for u, c in kept.items() if c == code and (u in single) == is_row) for code in range(3)}
        for name, is_row in (("_moved_kinds", False), ("_moved_rows", True))
    }


def _placed(found: Sequence[Mapping[str, Any]], rare: Sequence[int], split: ByHash) -> dict[int, int]:
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
