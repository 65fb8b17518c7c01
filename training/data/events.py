"""What happened lately at a place, for features that look back and never ahead.

Events are counted by place and hour (hours since 1970-01-01 UTC) in tables that merge across shards; a row then
asks for the hours before its own.
"""

from collections.abc import Iterable, Mapping
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

MERGED_AT_ONCE = 16


def counted(place: pa.Array, hour: NDArray[np.int64], value: NDArray[np.int64]) -> pa.Table:
    """Number of events and sum of their values by place (strings) and hour; all arguments (events,).

    Whole values, so that the sums do not depend on the order in which shards are merged.
    """
    ones = np.ones(len(hour), np.int64)
    return _summed(pa.table({"place": place, "hour": hour, "count": ones, "total": value.astype(np.int64)}))


def merged(histories: Iterable[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """The histories over all shards, by name; few at a time are held in memory."""
    remaining, whole = iter(histories), dict[str, pa.Table]()
    while batch := list(islice(remaining, MERGED_AT_ONCE)):
        parts = [whole, *batch] if whole else batch
        whole = {name: _summed(pa.concat_tables(part[name] for part in parts)) for name in batch[0]}
    return whole


def lately(
    history: pa.Table, place: pa.Array, hour: NDArray[np.int64], first: int, last: int
) -> tuple[Numbers, Numbers]:
    """Mean value and number of the events at each row's place from `first` to `last` hours before its hour.

    Returns:
        The means, NaN where there was no event, and the counts; (rows,) each.

    Raises:
        ValueError: the window reaches into the row's own hour or beyond.
    """
    if not 1 <= last <= first:
        raise ValueError(f"the window from {first} to {last} hours ago must end at least one hour ago.")
    if not history.num_rows:
        return np.full(len(hour), np.nan), np.zeros(len(hour))
    places = pc.unique(history["place"])
    start = pc.min(history["hour"]).as_py()
    length = pc.max(history["hour"]).as_py() - start + 1
    codes, hours = pc.index_in(history["place"], places).to_numpy(), history["hour"].to_numpy()
    keys = codes.astype(np.int64) * (length + 1) + hours - start
    order = np.argsort(keys)
    keys = keys[order]
    row = pc.fill_null(pc.index_in(place, places), len(places)).to_numpy().astype(np.int64) * (length + 1)
    begin, end = (np.searchsorted(keys, row + np.clip(hour - start - back, 0, length)) for back in (first, last - 1))
    count, total = (_running(history[name].to_numpy()[order], begin, end) for name in ("count", "total"))
    return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0), count


def _running(values: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64]) -> Numbers:
    """The sum of values[begin:end] for each pair."""
    sums = np.concatenate([[0], np.cumsum(values)]).astype(np.float64)
    return sums[end] - sums[begin]


def _summed(table: pa.Table) -> pa.Table:
    by = table.group_by(["place", "hour"], use_threads=False)
    sums = by.aggregate([("count", "sum"), ("total", "sum")])
    return sums.rename_columns(["place", "hour", "count", "total"])
