"""What rows look back on: events summed by place and hour, and windows over the sums, joined to the rows.

An event is aggregated once, at the finest grain that those who look at its table need, and a row finds all that
happened at one place by one join.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import cast

import ibis
import ibis.expr.types as ir

from training.data.engines import Engine
from training.data.events import Events, hours
from training.data.tables import rebased
from training.data.tabular import TabularTask
from training.errors import UserError

#: The hour of a row or of events.
HOUR = "_hour"


def looking_back(task: TabularTask, engine: Engine, source: ir.Table) -> ir.Table:
    """The table with what its rows look back on.

    Raises:
        UserError: a window reaches a row's own hour.
    """
    rows = rebased.visible(source, (field.name for field in task.schema))
    events = {
        name: _based(source, rows, checked) for name, checked in _checked(rebased.said(task, "events", rows)).items()
    }
    if not events:
        return source
    joined = source.mutate(**{HOUR: hours(source[task.time])})
    asked = engine.create("_asked", joined.select(*_places(events.values()), HOUR).distinct())
    sums = dict(_summed(engine, events))
    for number, (by, names) in enumerate(_by_place(events)):
        history = _history(asked, {name: sums[name] for name in names}, by)
        windows = _windows(history, {name: events[name] for name in names}, by)
        joined = _joined(joined, engine.create(f"_history_{number}", windows), by)
    return joined.drop(HOUR)


def _checked(events: Mapping[str, Events]) -> Mapping[str, Events]:
    for name, first, last in ((name, *window) for name, these in events.items() for window in these.windows):
        if not 1 <= last <= first:
            raise UserError(
                f"the events {name} look back from {first} to {last} hours ago: a window must end at least one hour "
                "ago, for what happens in a row's own hour may be its outcome."
            )
    return events


def _based(source: ir.Table, rows: ir.Table, events: Events) -> Events:
    return Events(rebased.onto(source, rows, events.table), events.by, events.windows, events.hour, events.value)


def _places(events: Iterable[Events]) -> list[str]:
    """The columns by which any of them is looked at."""
    return list(dict.fromkeys(name for these in events for name in these.by))


def _summed(engine: Engine, events: Mapping[str, Events]) -> Iterator[tuple[str, ir.Table]]:
    """The number of events and the sum of their values by hour and, at least, each one's place."""
    sharing: dict[tuple[object, str, str], list[str]] = {}
    for name, these in events.items():
        sharing.setdefault((these.table.op(), these.hour, these.value), []).append(name)
    for number, names in enumerate(sharing.values()):
        first = events[names[0]]
        happened, places = first.table, _places(events[name] for name in names)
        value = happened[first.value].cast("int64") if first.value else ibis.literal(0, "int64")
        one = happened.select(*places, _total=value, **{HOUR: happened[first.hour].cast("int64")})
        grouped = one.group_by([*places, HOUR]).agg(_n=one.count(), _total=one["_total"].sum())
        made = engine.create(f"_events_{number}", grouped)
        yield from ((name, made) for name in names)


def _by_place(events: Mapping[str, Events]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """The names of the events that are looked at by the same columns."""
    ordered = sorted(events, key=lambda name: events[name].by)
    for by, names in groupby(ordered, lambda name: events[name].by):
        yield by, list(names)


def _history(asked: ir.Table, sums: Mapping[str, ir.Table], by: Sequence[str]) -> ir.Table:
    """The sums of all these events by place and hour; also the hours of rows, so that each finds its windows."""
    keys, nothing = [*by, HOUR], ibis.literal(0, "int64")
    parts = [asked.select(*keys, **{column: nothing for name in sums for column in _columns(name)})]
    for name, table in sums.items():
        n, total = _columns(name)
        own = {n: table["_n"], total: table["_total"]}
        others = {column: nothing for other in sums for column in _columns(other) if other != name}
        parts.append(table.select(*keys, **own, **others).select(parts[0].columns))
    both = ibis.union(*parts)
    return both.group_by(keys).agg(**{name: both[name].sum() for name in both.columns if name not in keys})


def _columns(name: str) -> tuple[str, str]:
    """The columns of a history with the number of events and the sum of their values."""
    return f"_n_{name}", f"_total_{name}"


def _windows(history: ir.Table, events: Mapping[str, Events], by: Sequence[str]) -> ir.Table:
    columns: dict[str, ir.Value] = {}
    for name, these in events.items():
        n, total = (history[column] for column in _columns(name))
        for first, last in these.windows:
            window = ibis.range_window(preceding=(first, last), group_by=list(by), order_by=HOUR)
            count = cast(ir.IntegerValue, n.sum().over(window).fill_null(0))
            columns[f"{name}_count_{first}_{last}"] = count.cast("float64")
            if these.value:
                columns[f"{name}_mean_{first}_{last}"] = total.sum().over(window) / count.nullif(0)
    return history.select(**{f"_at_{key}": history[key] for key in (*by, HOUR)}, **columns)


def _joined(rows: ir.Table, history: ir.Table, by: Sequence[str]) -> ir.Table:
    keys = (*by, HOUR)
    joint = rows.left_join(history, [rows[key] == history[f"_at_{key}"] for key in keys])
    return joint.drop(*(f"_at_{key}" for key in keys))
