"""One expression from the source to finished rows: identity, split, group, features, label."""

import re
from collections.abc import Mapping
from typing import Any

import ibis
import ibis.expr.types as ir

from training.data.engines import PLACE, Engine
from training.data.events import Events, hours
from training.data.identity import numbered
from training.data.tables import rebased
from training.data.tables.duplicates import ID
from training.data.tabular import TabularTask
from training.errors import UserError

#: The column of the finished rows that is their id; beside the label, no feature has its name.
ROW_ID = "row_id"
#: Columns of the source beside the declared ones, and of the finished rows `_split`; no expression of a task sees them.
SPLIT, LABEL, DAY, MARK, KIND = "_split", "_label", "_day", "_mark", "_kind"
INTERNAL = frozenset({*PLACE, ID, SPLIT, LABEL, DAY, MARK, KIND})


def marked(task: TabularTask, source: ir.Table) -> ir.Table:
    """The source with what decides its rows' splits, and their labels: `_mark` and `_label`."""
    rows = rebased.visible(source, (field.name for field in task.schema))
    day = task.days(rows).epoch_days() if task.time else None
    values = {MARK: task.split.mark(rows, day), LABEL: task.labels(rows).cast("int64")}
    if task.group == "day" and task.time:
        values[DAY] = day.cast("int32")
    return source.mutate(**{name: rebased.onto(source, rows, value) for name, value in values.items()})


def kinded(task: TabularTask, rows: ir.Table, dialect: str) -> ir.Table:
    """The rows with `_kind`, the number of the declared columns that decide their split, if some do."""
    deciding = task.split.deciding
    if not deciding or not set(deciding) <= {field.name for field in task.schema if field.known == "before"}:
        return rows
    return rows.mutate(**{KIND: rows[ID]}) if deciding == task.key else numbered(rows, deciding, dialect, KIND)


def looking_back(task: TabularTask, engine: Engine, source: ir.Table) -> ir.Table:
    """The table with what its rows look back on."""
    rows = rebased.visible(source, (field.name for field in task.schema))
    joined = source
    for name, events in task.events(rows).items():
        happened = rebased.onto(source, rows, events.table)
        moment = source[task.time]
        sums = _sums(source, happened, events, moment)
        history = engine.create(f"{name}_lately", _windows(sums, name, events))
        joined = _joined(joined, history, name, events, joined[task.time])
    return joined


def _sums(source: ir.Table, happened: ir.Table, events: Events, moment: ir.Value) -> ir.Table:
    """Events by place and hour; also the hours of rows, without events, so that each finds its windows."""
    value = happened[events.value].cast("int64") if events.value else ibis.literal(0, "int64")
    keys = {name: happened[name] for name in events.by}
    one = happened.select(**keys, hour=happened[events.hour].cast("int64"), n=ibis.literal(1, "int64"), total=value)
    counted = one.group_by([*events.by, "hour"]).agg(n=one.n.sum(), total=one.total.sum())
    asked = source.select(**{name: source[name] for name in events.by}, hour=hours(moment)).distinct()
    asked = asked.mutate(n=ibis.literal(0, "int64"), total=ibis.literal(0, "int64"))
    both = ibis.union(counted, asked)
    return both.group_by([*events.by, "hour"]).agg(n=both.n.sum(), total=both.total.sum())


def _windows(sums: ir.Table, name: str, events: Events) -> ir.Table:
    columns: dict[str, ir.Value] = {}
    for first, last in events.windows:
        if not 1 <= last <= first:
            raise UserError(
                f"the events {name} look back from {first} to {last} hours ago: a window must end at least one hour "
                "ago, for what happens in a row's own hour may be its outcome."
            )
        window = ibis.range_window(preceding=(first, last), group_by=list(events.by), order_by="hour")
        n = sums.n.sum().over(window).fill_null(0)
        columns[f"{name}_count_{first}_{last}"] = n.cast("float64")
        if events.value:
            columns[f"{name}_mean_{first}_{last}"] = sums.total.sum().over(window) / n.nullif(0)
    keys = {f"_{name}_{by}": sums[by] for by in events.by}
    return sums.select(**keys, **{f"_{name}_hour": sums.hour}, **columns)


def _joined(joined: ir.Table, history: ir.Table, name: str, events: Events, moment: ir.Value) -> ir.Table:
    same = [joined[by] == history[f"_{name}_{by}"] for by in events.by]
    joint = joined.left_join(history, [*same, hours(moment) == history[f"_{name}_hour"]])
    return joint.drop(*(f"_{name}_{by}" for by in (*events.by, "hour")))


def finished(task: TabularTask, table: ir.Table, planned: Mapping[str, Any], dialect: str) -> ir.Table:
    """The rows that are kept: `row_id`, `_split`, the group, the features, and the label under its name.

    Args:
        table: Marked and identified rows, with what they look back on and, if declared columns decide their split,
            with `_kind`.
    """
    hidden = {f.name for f in task.schema if f.known == "after"}
    names = [name for name in table.columns if name not in hidden and name not in INTERNAL]
    rows = rebased.visible(table, names)
    features = _checked(task, _features(task, rows, hidden))
    values: dict[str, ir.Value] = {ROW_ID: table[ID]}
    values |= {name: table[name] for name in (MARK, KIND) if name in table.columns}
    if task.group and task.group not in features:
        values[task.group] = _group(task, table, names)
    values |= {name: rebased.onto(table, rows, value) for name, value in features.items()}
    values[task.label] = table[LABEL]
    kept = table.select(**values)
    if task.split.deciding and KIND not in kept.columns:
        kept = numbered(kept, task.split.deciding, dialect, KIND)
    kept = kept.mutate(**{SPLIT: task.split.assigned(kept, planned)})
    rest = [name for name in kept.columns if name not in INTERNAL]
    kept = kept.select(SPLIT, *rest)
    return kept.filter(kept[SPLIT] >= 0, kept[task.label].notnull()).relocate(ROW_ID)


def _features(task: TabularTask, rows: ir.Table, hidden: set[str]) -> Mapping[str, Any]:
    try:
        return task.features(rows)
    except (AttributeError, ibis.IbisError) as error:
        if asked := [name for name in sorted(hidden) if re.search(rf"\b{re.escape(name)}\b", str(error).splitlines()[0])]:
            raise UserError(
                f"{type(task).__name__}.features asks for {asked[0]}, which is known only after the outcome: "
                "the model would learn from what it is to predict."
            ) from None
        raise


def _checked(task: TabularTask, features: Mapping[str, Any]) -> dict[str, ir.Value]:
    """Numbers as float32, strings as they are; anything else needs a decision that only the task can take."""
    if not features:
        raise UserError(f"{type(task).__name__}.features gives no column: there is nothing to learn from.")
    hidden = {field.name for field in task.schema if field.known == "after"}
    if leaks := sorted(hidden & features.keys()):
        raise UserError(f"the feature {leaks[0]} has the name of a column that is known only after the outcome.")
    if own := [name for name in (ROW_ID, task.label) if name in features]:
        raise UserError(f"the feature {own[0]} has the name of a column that every dataset has: call it otherwise.")
    if lacking := [name for name in task.slices if name not in features]:
        raise UserError(f"the slice {lacking[0]} is none of the features {', '.join(features)}.")
    return {name: _feature(name, value) for name, value in features.items()}


def _feature(name: str, value: Any) -> ir.Value:
    value = value if isinstance(value, ir.Value) else ibis.literal(value)
    kind = value.type()
    if kind.is_numeric() or kind.is_boolean():
        return value.cast("float32")
    if kind.is_string():
        return value.fill_null("")
    raise UserError(f"the feature {name} is of type {kind}: make numbers or strings of it in `features`.")


def _group(task: TabularTask, table: ir.Table, names: list[str]) -> ir.Value:
    if task.group == "day" and task.time:
        return table[DAY]
    if task.group not in names:
        raise UserError(
            f"{type(task).__name__}.group is {task.group!r}: neither a feature, nor a column known before the "
            "outcome, nor 'day' of a task with a time."
        )
    return table[task.group]
