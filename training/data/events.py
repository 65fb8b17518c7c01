"""What happened lately at a place, for features that look back and never ahead.

Events are counted by place and hour (hours since 1970-01-01 UTC) in tables that merge across shards; a row then
asks for the hours before its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

MERGED_AT_ONCE = 16


@dataclass(frozen=True)
class Events:
    """Things that happened, and the hours before a row's own over which the row looks back on them.

    A row gets `NAME_count_FIRST_LAST` (float64, never null), and with a value `NAME_mean_FIRST_LAST` (float64, null
    without an event), for each window: of the events with the row's own `by` values in the hours from FIRST to LAST
    before the row's hour, which is that of the task's `time`. NAME is the key in `TabularTask.events`.
    """

    #: An event a row, made from the source's rows: filtered, repeated (`ibis.union`), with columns of its own.
    table: ir.Table
    #: Columns of both the events and the source's rows, known before the outcome: who looks back on which.
    by: tuple[str, ...]
    #: (first, last): from `first` to `last` hours ago, 1 <= last <= first. No window reaches the row's own hour.
    windows: tuple[tuple[int, int], ...]
    #: The column of `table` that says when it happened, int64: hours since 1970-01-01 UTC (see `hours`).
    hour: str = "hour"
    #: The integer column of `table` whose mean is taken; "" = events are counted only.
    value: str = ""


def hours(moment: ir.TimestampValue | ir.DateValue) -> ir.IntegerValue:
    """The hour of a moment, in hours since 1970-01-01 UTC."""
    seconds = moment.cast("timestamp('UTC')").epoch_seconds()
    return cast(ir.IntegerValue, seconds // 3600)


def counted(place: pa.Array, hour: NDArray[np.int64], value: NDArray[np.int64]) -> pa.Table:
    """Number of events and sum of their values by place (strings) and hour; all arguments (events,).

    Whole values, so that the sums do not depend on the order in which shards are merged.
    """
    ones = np.ones(len(hour), np.int64)
    return _summed(pa.table({"place": place, "hour": hour, "count": ones, "total": value.astype(np.int64)}))


def merged(histories: Iterable[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    """The histories over all shards by name, in order of place and hour; few at a time are held in memory."""
    remaining, whole = iter(histories), dict[str, pa.Table]()
    while batch := list(islice(remaining, MERGED_AT_ONCE)):
        parts = [whole, *batch] if whole else batch
        whole = {name: _summed(pa.concat_tables(part[name] for part in parts)) for name in batch[0]}
    return {name: history.sort_by([("place", "ascending"), ("hour", "ascending")]) for name, history in whole.items()}


def lately(
    history: pa.Table, place: pa.Array, hour: NDArray[np.int64], windows: Sequence[tuple[int, int]]
) -> list[tuple[Numbers, Numbers]]:
    """Mean value and number of the events at each row's place in some windows before its hour.

    Args:
        windows: (first, last) = from `first` to `last` hours before.

    Returns:
        For each window the means, NaN where there was no event, and the counts; (rows,) each.

    Raises:
        ValueError: a window reaches into the row's own hour or beyond.
    """
    for first, last in windows:
        if not 1 <= last <= first:
            raise ValueError(f"the window from {first} to {last} hours ago must end at least one hour ago.")
    places = pc.unique(history["place"])
    start, span = (int(history["hour"].to_numpy().min()), _span(history)) if history.num_rows else (0, 1)
    keys = _key(history["place"], places, history["hour"].to_numpy() - start, span)
    order = np.argsort(keys, kind="stable")  # a merged history is in order already, and then this is quick
    keys, count, total = keys[order], *(_cumulated(history[name].to_numpy()[order]) for name in ("count", "total"))
    row = _key(place, places, np.zeros_like(hour), span)
    sorting = np.lexsort((hour, row))  # searching in order is several times faster
    row, hour = row[sorting], hour[sorting] - start
    figures = []
    for first, last in windows:
        begin, end = (np.searchsorted(keys, row + np.clip(hour - back, 0, span - 1)) for back in (first, last - 1))
        n, summed = np.empty(len(row)), np.empty(len(row))
        n[sorting], summed[sorting] = count[end] - count[begin], total[end] - total[begin]
        figures.append((np.divide(summed, n, out=np.full(len(n), np.nan), where=n > 0), n))
    return figures


def _span(history: pa.Table) -> int:
    """Hours from the first event to the one after the last."""
    hours = history["hour"].to_numpy()
    return int(hours.max() - hours.min()) + 2


def _key(place: pa.Array, places: pa.Array, hour: NDArray[np.int64], span: int) -> NDArray[np.int64]:
    """One number for place and hour, in order of the hour within a place; unknown places come last."""
    codes = pc.fill_null(pc.index_in(place, places), len(places)).to_numpy()
    return np.asarray(codes.astype(np.int64) * span + hour)


def _cumulated(values: NDArray[np.int64]) -> Numbers:
    """[i] is the sum of the values before i; (values + 1,)."""
    return np.concatenate([[0], np.cumsum(values)]).astype(np.float64)


def _summed(table: pa.Table) -> pa.Table:
    by = table.group_by(["place", "hour"], use_threads=False)
    sums = by.aggregate([("count", "sum"), ("total", "sum")])
    # Copied: the result is cut from larger buffers, which would all go along to other processes.
    compact = sums.rename_columns(["place", "hour", "count", "total"]).combine_chunks()
    return compact.take(pa.array(np.arange(compact.num_rows)))
