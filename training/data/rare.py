"""Rare classes over splits by a hash: each has its shares to a row, where chance may leave a split without it.

What goes to a split as one is a unit: a group, a key, rows that are alike, or a row of a kind that is common. A class of
many units has its shares by the hash alone. The units of a rarer one are put in the order in which the hash would take
them, and the first of them test. So a row leaves its split only if the class lacks rows there, or as its number grows.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import ibis
import ibis.expr.types as ir

from training.data.alike import Kinds
from training.data.engines import ID, Engine
from training.data.split_hash import ByHash

#: A class of more units is not rare: a fifth of 100 is off by more than 12 once in 500 times.
RARE = 100
#: Units of all rare classes together, which are listed in a query.
MOST_UNITS = 10_000

#: Units by the code of their split.
Moved = dict[int, list[int]]


def moved(engine: Engine, rows: ir.Table, split: ByHash, kinds: Kinds | None) -> dict[str, Moved]:
    """Where units of rare classes go that the hash would have go elsewhere: `_moved_kinds`, and single rows in
    `_moved_rows`.

    Args:
        rows: With `_label`, codes, `_row_id` and `_kind`.
    """
    alone = rows["_kind"].isin(kinds.common) if kinds and len(kinds.common) and not split.group else ibis.literal(False)
    unit = alone.ifelse(rows[ID], rows["_kind"])
    units = rows.select(label=rows["_label"], unit=unit, alone=alone).filter(rows["_label"].notnull())
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
        for code, share in ((2, split.test_percent), (1, split.validation_percent)):
            wanted = round(len(units) * share / 100) - sum(places.get(unit) == code for unit in units)
            if code == 2 and not any(places.get(unit) == code for unit in units):
                wanted = max(1, wanted)
            trained = any(places.get(unit) == 0 for unit in units)
            for unit in free[: max(0, min(wanted, len(free) - (not trained)))]:
                places[unit] = code
            free = [unit for unit in free if unit not in places]
        places |= dict.fromkeys(free, 0)
    return places
