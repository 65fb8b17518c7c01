"""Each of several classes against the rest: AUCs of many parts of the rows from one look at the scores.

A sort of every part for every class would be most of the work of an evaluation. All rows' scores are put into up to
`LEVELS` levels of about equal mass, and each part counts its hits and misses in them. Pairs within a level count a
half, so the AUC is off by at most half of their share: a part where that may be more than `TOLERANCE` is sorted after
all, and so is one of few rows.
"""

from collections.abc import Sequence

import numpy as np

from vgp.evaluation.ranked import Ranked, chosen, pieces

#: With a bit for whether it is a hit, a level fits 16 bits.
LEVELS = 1 << 15
#: Of a packed row's bits, the ones that do not count for its level: 8,192 buckets are left from a score to its double.
BUCKET_BITS = 11
TOLERANCE = 5e-5
#: Rows that are counted at once: more than there are levels, so that adding the counts up costs little.
COUNTED_ROWS = 1 << 20


def aucs(rows: np.ndarray, ranked: Ranked, parts: Sequence[np.ndarray]) -> list[float | None]:
    """The AUC of each part; None where it has no hits or no misses.

    Args:
        rows: All rows, packed; `ranked` are the same in order.
        parts: Numbers of rows, rising, int (n,).
    """
    cells, exact = _cells(rows, ranked)
    return [_auc(rows, cells, part, exact) for part in parts]


def _cells(rows: np.ndarray, ranked: Ranked) -> tuple[np.ndarray, bool]:
    """`level << 1 | hit` of each row, uint16 (N,), and whether no level holds two scores."""
    counts = np.zeros((int(ranked.rows[-1]) >> BUCKET_BITS) + 1, np.int64)
    for piece in pieces(len(rows), COUNTED_ROWS):
        counts += np.bincount(rows[piece] >> np.uint32(BUCKET_BITS), minlength=len(counts))
    level = ((np.cumsum(counts) - counts) * LEVELS // len(rows)).astype(np.uint16) << np.uint16(1)
    cells = np.empty(len(rows), np.uint16)
    for piece in pieces(len(rows)):
        cells[piece] = level[rows[piece] >> np.uint32(BUCKET_BITS)] | (rows[piece] & np.uint32(1))
    return cells, len(np.unique(level[counts > 0])) == ranked.distinct


def _auc(rows: np.ndarray, cells: np.ndarray, part: np.ndarray, exact: bool) -> float | None:
    if len(part) < LEVELS:
        return Ranked.of(chosen(rows, part)).auc()
    counts = np.zeros(2 * LEVELS, np.int64)
    for piece in pieces(len(part), COUNTED_ROWS):
        counts += np.bincount(cells[part[piece]], minlength=2 * LEVELS)
    misses, hits = counts[::2], counts[1::2]
    pairs = int(misses.sum()) * int(hits.sum())
    if not pairs:
        return None
    tied = int(misses @ hits)
    if not exact and tied / 2 > TOLERANCE * pairs:
        return Ranked.of(chosen(rows, part)).auc()
    return (int(hits @ misses.cumsum()) - tied / 2) / pairs
