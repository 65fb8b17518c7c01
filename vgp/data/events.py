"""Sums over recent events at a row's place, for features that look back and never ahead.

A place is a combination of values of the `by` columns. Events are summed by place and hour (hours since 1970-01-01
UTC), in integers, so the order of the additions does not matter. A row gets sums over hours before its own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import ibis
import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vgp.base.exits import UserError

#: Columns of sums, beside the `by` columns, which may have any name of a table's column.
FIGURES = ("_rows", "_known", "_total", "_asked")


@dataclass(frozen=True)
class Events:
    """A table of events, and the windows of hours over which each row sums them.

    For each window a row gets `NAME_count_FIRST_LAST` (float64, never null), and if `value` is set
    `NAME_mean_FIRST_LAST` (float64, null without an event): the count and mean of the events with the row's `by`
    values, from FIRST to LAST hours before the hour of the task's `time`. NAME is the key in `TabularTask.events`.
    """

    #: One row for each event, made from the source's rows: filtered, repeated (`ibis.union`), with new columns.
    table: ir.Table
    #: Columns of both the events and the source's rows, known before the outcome, that must be equal.
    by: tuple[str, ...]
    #: (first, last): from `first` to `last` hours ago, 1 <= last <= first. No window reaches the row's own hour.
    windows: tuple[tuple[int, int], ...]
    #: The column of `table` with the time of the event, int64: hours since 1970-01-01 UTC (see `hours`).
    hour: str = "hour"
    #: The integer column of `table` to average, ignoring nulls; "" = only count events.
    value: str = ""
    #: The integer column of `table` with the number of events that a row stands for; "" = 1.
    weight: str = ""


def hours(moment: ir.TimestampValue | ir.DateValue) -> ir.IntegerValue:
    """Returns the hour of a moment, in hours since 1970-01-01 UTC."""
    seconds = moment.cast("timestamp('UTC')").epoch_seconds()
    return cast(ir.IntegerValue, (seconds / 3600).floor().cast("int64"))


def check(name: str, events: Events, before: Mapping[str, dt.DataType]) -> None:
    """Raises UserError if the declaration of the events is wrong.

    Args:
        before: The types of the row's columns that are known before the outcome.
    """
    if not isinstance(events, Events):
        raise UserError(f"the events {name} are a {type(events).__name__}: return vgp.data.events.Events.")
    for problem in _find_problems(events, before):
        raise UserError(f"the events {name}: {problem}")


def _find_problems(events: Events, before: Mapping[str, dt.DataType]) -> Iterator[str]:
    columns = events.table.schema()
    for first, last in events.windows:
        if not (_is_whole(first) and _is_whole(last) and 1 <= last <= first):
            yield (
                f"the window ({first}, {last}) is not valid. A window must have whole hours with 1 <= last <= first: "
                "it may not reach the row's own hour, whose events may be the outcome."
            )
    if not events.windows or len(set(events.windows)) < len(events.windows):
        yield "`windows` must name at least one window, each once, such as ((1, 1), (24, 2))."
    for role, name in (("hour", events.hour), ("value", events.value), ("weight", events.weight)):
        if name and (name not in columns or not columns[name].is_integer()):
            kind = columns.get(name, "none of its columns")
            yield f"the {role} {name!r} must be a column of whole numbers; it is {kind}."
    for name in events.by:
        if name not in before or name not in columns:
            yield f"by {name!r} must be a column of both the events and the rows, known before the outcome."
        elif before[name].copy(nullable=True) != columns[name].copy(nullable=True):
            yield f"by {name!r} is {columns[name]} in the events and {before[name]} in the rows."


def _is_whole(hour: object) -> bool:
    return isinstance(hour, int) and not isinstance(hour, bool)


def select_row_hours(rows: ir.Table, by: Sequence[str], hour: ir.IntegerValue) -> ir.Table:
    """Returns the distinct places and hours of the rows."""
    return rows.select(**{name: rows[name] for name in by}, _hour=hour).distinct()


def sum_events(events: Events, by: Sequence[str]) -> ir.Table:
    """Returns by place and hour the number of events (`_rows`), and the number and sum of known values (`_known`,
    `_total`)."""
    table = events.table
    value = table[events.value].cast("int64") if events.value else ibis.null("int64")
    weights = {"_weight": table[events.weight].cast("int64").fill_null(0)} if events.weight else {}
    places = {name: table[name] for name in by}
    typed = table.select(**places, _hour=table[events.hour].cast("int64"), _value=value, **weights)
    typed = typed.filter(typed["_hour"].notnull())
    if not events.weight:  # counting takes less time than adding ones
        return _sum_by_hour(
            typed, by, _rows=typed.count(), _known=typed["_value"].count(), _total=typed["_value"].sum()
        )
    weight, known = typed["_weight"], typed["_value"].notnull()
    total = typed["_value"] * weight
    return _sum_by_hour(typed, by, _rows=weight.sum(), _known=known.ifelse(weight, 0).sum(), _total=total.sum())


def sum_places(happened: ir.Table, by: Sequence[str]) -> ir.Table:
    """Sums the result of `sum_events` over fewer `by` columns."""
    return _sum_by_hour(happened, by, **{name: happened[name].sum() for name in ("_rows", "_known", "_total")})


def sums(happened: ir.Table, asked: ir.Table, by: Sequence[str]) -> ir.Table:
    """Returns the union of the event sums and the places and hours of rows, which have sums of 0 and `_asked` = 1.

    A place and hour of both has two rows; windowed sums add them up.
    """
    zero = ibis.literal(0, "int64")
    event_sums = happened.select(*by, "_hour", "_rows", "_known", "_total", _asked=zero)
    row_hours = asked.select(*by, "_hour", _rows=zero, _known=zero, _total=zero, _asked=ibis.literal(1, "int64"))
    return ibis.union(event_sums, row_hours)


def _sum_by_hour(table: ir.Table, by: Sequence[str], **figures: ir.IntegerScalar) -> ir.Table:
    columns = {name: figure.fill_null(0).cast("int64") for name, figure in figures.items()}
    return table.group_by([*by, "_hour"]).agg(**columns)


def sum_windows(sums: ir.Table, name: str, events: Events) -> ir.Table:
    """Returns the counts and means of each window by place and hour of rows, with window functions of the engine.

    `compute_window_sums` computes the same values in numpy.
    """
    columns: dict[str, ir.Value] = {}
    for first, last in events.windows:
        window = ibis.range_window(preceding=(first, last), group_by=list(events.by), order_by="_hour")
        columns[f"{name}_count_{first}_{last}"] = sums["_rows"].sum().over(window).fill_null(0).cast("float64")
        if events.value:
            known = sums["_known"].sum().over(window)
            columns[f"{name}_mean_{first}_{last}"] = sums["_total"].sum().over(window) / known.nullif(0)
    places = {f"_{name}_{i}": sums[by] for i, by in enumerate(events.by)}
    history = sums.select(**places, **{f"_{name}_hour": sums["_hour"]}, **columns, _asked=sums["_asked"])
    return history.filter(history["_asked"] > 0).drop("_asked")


def join_history(rows: ir.Table, history: ir.Table, name: str, events: Events, hour: str) -> ir.Table:
    """Joins the counts and means of the windows to the rows.

    Args:
        history: The result of `sum_windows` or `compute_window_sums`.
        hour: The column of `rows` that holds their hour.
    """
    keys = [f"_{name}_{i}" for i in range(len(events.by))]
    same = [rows[by] == history[key] for by, key in zip(events.by, keys, strict=True)]
    joint = rows.left_join(history, [*same, rows[hour] == history[f"_{name}_hour"]])
    counts = [f"{name}_count_{first}_{last}" for first, last in events.windows]
    # A row with a null in its place has no events.
    return joint.mutate(**{count: joint[count].fill_null(0.0) for count in counts}).drop(*keys, f"_{name}_hour")


# ---- the windows in numpy, in a fifth of an engine's time: differences of running sums, which are integers, so the
# limits of batches do not matter


#: Running sums add the upper and the lower 32 bits of a value apart, so neither sum overflows.
_HALF = 32


def compute_window_sums(sums: Iterable[pa.RecordBatch], name: str, events: Events) -> Iterator[pa.RecordBatch]:
    """Yields the rows of `sum_windows`, computed in numpy.

    Args:
        sums: The result of `vgp.data.events.sums`, sorted by place and hour.
    """
    longest = max(first for first, _ in events.windows)
    overlap: pa.RecordBatch | None = None
    for batch in sums:
        rows = batch if overlap is None else pa.concat_batches([overlap, batch])
        new = rows.num_rows - batch.num_rows
        places, hours = _number_places(rows, events.by), rows["_hour"].to_numpy()
        yield _sum_windows(rows, new, places, hours - hours.min(), name, events)
        overlap = rows.filter(pa.array((places == places[-1]) & (hours >= hours[-1] - longest)))


def _number_places(rows: pa.RecordBatch, by: tuple[str, ...]) -> NDArray[np.int64]:
    """Returns the number of each row's place, from 0, in rows sorted by place."""
    is_new = np.zeros(rows.num_rows, bool)
    for name in by:
        is_new[1:] |= pc.not_equal(rows[name][1:], rows[name][:-1]).to_numpy(zero_copy_only=False)
    return np.cumsum(is_new)


def _sum_windows(
    rows: pa.RecordBatch, new: int, places: NDArray[np.int64], hours: NDArray[np.int64], name: str, events: Events
) -> pa.RecordBatch:
    """Returns the windows of the rows from `new` on that have `_asked` set."""
    spacing = int(hours.max()) + 1 + max(first for first, _ in events.windows)
    at = places * spacing + hours  # rises, and no window reaches into another place
    asked = new + np.flatnonzero(rows["_asked"].to_numpy()[new:])
    columns = {f"_{name}_{i}": rows[by].take(pa.array(asked)) for i, by in enumerate(events.by)}
    columns[f"_{name}_hour"] = rows["_hour"].take(pa.array(asked))
    total = rows["_total"].to_numpy()
    count, known, high, low = map(
        _sum_running, (rows["_rows"].to_numpy(), rows["_known"].to_numpy(), total >> _HALF, total & ((1 << _HALF) - 1))
    )
    for first, last in events.windows:
        start, end = np.searchsorted(at, at[asked] - first), np.searchsorted(at, at[asked] - last, side="right")
        columns[f"{name}_count_{first}_{last}"] = pa.array((count[end] - count[start]).astype(np.float64))
        if events.value:
            number = known[end] - known[start]
            values = (high[end] - high[start]) * 2.0**_HALF + (low[end] - low[start])
            mean = np.divide(values, number, where=number > 0, out=np.zeros(len(asked)))
            columns[f"{name}_mean_{first}_{last}"] = pa.array(mean, mask=number == 0)
    return pa.RecordBatch.from_pydict(columns)


def _sum_running(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
