"""Ids of rows that a task gives itself: unique over the dataset, compared part by part in bounded memory."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from vgp.base.exits import UserError

Ids = NDArray[np.int64]
#: Of one shard: its number, what it is called, and some of its ids.
ShardIds = tuple[int, str, Ids]

#: Ids that are compared at once are about so many.
PART_ROWS = 8 << 20
#: Odd, so that no two ids have one product (Knuth 1998, 6.4); its upper bits choose the part.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def parts(ids: Ids, count: int) -> list[Ids]:
    """The ids cut into `count` parts, equal ids of all shards into the same one."""
    number = (ids.astype(np.uint64) * _MULTIPLIER >> np.uint64(32)) % np.uint64(count)
    order = np.argsort(number, kind="stable")
    edges = np.searchsorted(number[order], np.arange(1, count, dtype=np.uint64))
    return np.split(ids[order], edges)


def require_unique(shards: Iterable[ShardIds]) -> None:
    """Raises UserError if an id occurs twice in one part of all shards."""
    named: Sequence[ShardIds] = sorted(shards, key=lambda shard: shard[0])
    if not named:
        return
    ids = np.concatenate([shard[2] for shard in named])
    order = np.argsort(ids, kind="stable")
    same = np.flatnonzero(ids[order][1:] == ids[order][:-1])
    if not len(same):
        return
    owner = np.repeat(np.arange(len(named)), [len(shard[2]) for shard in named])
    first, second = (named[owner[order[same[0] + i]]] for i in (0, 1))
    value = ids[order[same[0]]]
    where = f"twice in shard {first[0]} ({first[1]})"
    if first is not second:
        where = f"in shard {first[0]} ({first[1]}) and in shard {second[0]} ({second[1]})"
    raise UserError(f"row_id {value} occurs {where}: ids must be unique over the dataset.")
