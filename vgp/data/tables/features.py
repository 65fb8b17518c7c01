"""Builds the expression from the source to finished rows: id, split, group, features, label."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

import ibis
import ibis.expr.operations as ops
import ibis.expr.types as ir

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data import events as lookback
from vgp.data.engine import ID, KIND, PLACE, Engine
from vgp.data.events import Events, hours
from vgp.data.identity import number_rows, to_epoch
from vgp.data.schema import DAY, RESERVED, Field, canonical_schema
from vgp.data.split_hash import ByHash
from vgp.data.split_parts import Planned
from vgp.data.tables import engine_agreement, task_methods
from vgp.data.tabular import TabularTask

#: The id column of the finished rows. Features may not have its name, or that of the label.
ROW_ID = "row_id"
#: Internal columns of the source and the finished rows, which a task's expressions cannot see.
SPLIT, LABEL, MARK, WHEN, PAST = "_split", "_label", "_mark", "_when", "_past"
HOUR = "_hour"
#: The name of the table of marked rows.
ROWS = "rows"
INTERNAL = frozenset({*PLACE, ID, SPLIT, LABEL, DAY, MARK, KIND, WHEN, PAST, HOUR})


def derive_values(task: TabularTask, rows: ir.Table, dialect: str) -> dict[str, ir.Value]:
    """Returns the values that decide splits and labels: `_mark` and `_label`, `_when` with a time, `_day` with a group
    of days.

    Args:
        rows: A table of the declared columns only.
    """
    day = task_methods.call_value(task, "days", rows, ir.DateValue).epoch_days() if task.time else None
    values: dict[str, ir.Value] = {MARK: task.split.mark(rows, day), LABEL: get_labels(task, rows)}
    if day is not None:
        moment = rows[task.time]
        values[WHEN] = to_epoch(moment, dialect) if moment.type().is_temporal() else day
        if DAY in task.groups:
            values[DAY] = day.cast("int32")
    return values


def add_marks(task: TabularTask, source: ir.Table, dialect: str) -> ir.Table:
    """Adds the columns of `derive_values` that the source lacks."""
    rows = task_methods.visible_table(source, (field.name for field in task.schema))
    values = {name: value for name, value in derive_values(task, rows, dialect).items() if name not in source.columns}
    return source.mutate(**{name: task_methods.move_to(source, rows, value) for name, value in values.items()})


def get_labels(task: TabularTask, rows: ir.Table) -> ir.Value:
    """Returns the class codes, or the numbers of a regression; null where the outcome is unknown."""
    if not task.regression:
        return task_methods.call_value(task, "labels", rows, ir.IntegerValue).cast("int64")
    number = task_methods.call_value(task, "labels", rows, ir.NumericValue).cast("float64")
    return ibis.cases((number.isnan(), None), else_=number)


def day(task: TabularTask, rows: ir.Table) -> ir.IntegerValue:
    """Returns the day of each row since 1970-01-01, for a task with a time."""
    return task_methods.call_value(task, "days", rows, ir.DateValue).epoch_days().cast("int32")


def compute_days(task: TabularTask, source: ir.Table) -> ir.Table:
    """Returns `_file` and `day`, the day since 1970-01-01, from a source with the columns of `find_day_columns`."""
    rows = task_methods.visible_table(source, (name for name in source.columns if name not in PLACE))
    day = task_methods.move_to(source, rows, task_methods.call_value(task, "days", rows, ir.DateValue)).epoch_days()
    return source.select("_file", day=day)


def find_day_columns(task: TabularTask) -> list[Field]:
    """Returns the columns that `days` of the task uses."""
    rows = task_methods.visible_table(ibis.table(canonical_schema(task.schema)), (field.name for field in task.schema))
    named = {field.name for field in task_methods.call_value(task, "days", rows, ir.DateValue).op().find(ops.Field)}
    return [field for field in task.schema if field.name in named or field.name == task.time]


def kind_columns(task: TabularTask) -> tuple[str, ...]:
    """Returns the columns that decide the split of a row; () unless all are declared and known before the outcome."""
    known = {field.name for field in task.schema if field.known == "before"}
    return task.split.deciding if set(task.split.deciding) <= known else ()


def add_kinds(task: TabularTask, rows: ir.Table, dialect: str) -> ir.Table:
    """Returns the rows with `_kind`, the number of the declared columns that decide their split, if some do."""
    deciding = kind_columns(task)
    if not deciding:
        return rows
    if deciding == task.key:
        return rows if KIND in rows.columns else rows.mutate(**{KIND: rows[ID]})
    return _set_kind(task, rows if KIND in rows.columns else number_rows(rows, deciding, dialect, KIND))


def is_ungrouped(task: TabularTask, rows: ir.Table) -> ir.BooleanValue | None:
    """Whether a row lacks the group by which rows are split; None unless a column of `rows` is that group."""
    group = task.split.group if isinstance(task.split, ByHash) else ""
    if not group or group == DAY or group not in rows.columns:
        return None
    value = rows[group]
    is_empty = value.isnull()
    return cast(ir.BooleanValue, is_empty | (value == "").fill_null(False) if value.type().is_string() else is_empty)


def _set_kind(task: TabularTask, rows: ir.Table) -> ir.Table:
    """Gives each row without a group a kind of its own, so that its row id decides its split."""
    alone = is_ungrouped(task, rows)
    return rows if alone is None else rows.mutate(**{KIND: alone.ifelse(rows[ID], rows[KIND])})


def join_events(task: TabularTask, engine: Engine, source: ir.Table) -> ir.Table:
    """Joins the source with the figures of the task's events. Raises UserError for invalid events."""
    rows = task_methods.visible_table(source, (field.name for field in task.schema))
    before = {field.name: rows[field.name].type() for field in task.schema if field.known == "before"}
    happened: Mapping[str, Events] = task_methods.call_method(task, "events", rows)
    if not happened:
        return source
    if not task.time:
        raise UserError(f"{type(task).__name__}.events needs a `time`: rows look back on the hours before theirs.")
    spelled = dict[str, str]()
    for name, events in happened.items():
        lookback.check(name, events, before)
        if (other := spelled.setdefault(name.lower(), name)) != name:
            raise UserError(f"the events {other} and {name}: no two names may differ in case only.")
    placed = {
        name: replace(events, table=task_methods.move_to(source, rows, events.table))
        for name, events in happened.items()
    }
    joined = source.mutate(**{HOUR: hours(source[task.time])})
    sums = _sums(engine, joined, placed)
    for name, events in placed.items():
        history = engine.create_window_sums(name, sums[name], events)
        joined = lookback.join_history(joined, history, name, events, HOUR)
    return joined


def _sums(engine: Engine, rows: ir.Table, placed: Mapping[str, Events]) -> dict[str, ir.Table]:
    """Returns sums of events by place and hour. Many rows with few distinct places are first reduced to these."""
    places = list(dict.fromkeys(by for events in placed.values() for by in events.by))
    if engine.has_few_values(rows, [*places, HOUR]):
        rows = engine.create("asked", lookback.select_row_hours(rows, places, rows[HOUR]))
        happened = _sum_events(engine, placed)
    else:
        happened = {name: lookback.sum_events(events, events.by) for name, events in placed.items()}
    return {
        name: lookback.sums(happened[name], lookback.select_row_hours(rows, events.by, rows[HOUR]), events.by)
        for name, events in placed.items()
    }


def _sum_events(engine: Engine, placed: Mapping[str, Events]) -> dict[str, ir.Table]:
    """Returns events by place and hour; events of one table are summed once, by all their places."""
    alike: dict[tuple[ops.Node, str, str, str], list[str]] = {}
    for name, events in placed.items():
        alike.setdefault((events.table.op(), events.hour, events.value, events.weight), []).append(name)
    gathered: dict[str, ir.Table] = {}
    for names in alike.values():
        by = list(dict.fromkeys(by for name in names for by in placed[name].by))
        happened = lookback.sum_events(placed[names[0]], by)
        if len(names) > 1:
            happened = engine.create(f"{names[0]}_happened", happened)
        gathered |= {name: lookback.sum_places(happened, placed[name].by) for name in names}
    return gathered


def finish_rows(
    task: TabularTask,
    table: ir.Table,
    planned: Planned,
    dialect: str,
    past: tuple[int, int] | None = None,
    task_features: "TaskFeatures | None" = None,
) -> ir.Table:
    """Returns the finished rows: `row_id`, `_split`, the group, the features and the label.

    Args:
        table: Marked rows with ids, the figures of events and, if declared columns decide the split, `_kind`.
        past: (moment, id): keeps all rows before this moment with ids below this one, marked by `_past`.
        task_features: The features; None = call the task.
    """
    features = (task_features or ask_features(task, table)).over(table)
    values: dict[str, ir.Value] = {name: table[name] for name in (ID, MARK, KIND) if name in table.columns}
    for group in task.groups:
        if group not in features:
            values[group] = _group(task, group, table, _list_visible(task, table), dialect)
    values |= features
    values[task.label] = table[LABEL]
    if past:
        values[PAST] = (table[WHEN] < past[0]) & (table[ID] < past[1])
    kept = table.select(**values)
    if task.split.deciding and KIND not in kept.columns:
        kept = _set_kind(task, number_rows(kept, task.split.deciding, dialect, KIND))
    kept = kept.mutate(**{SPLIT: task.split.assign(kept, planned)})
    rest = [name for name in kept.columns if name not in INTERNAL or name in task.groups]
    kept = kept.select(SPLIT, *(PAST for _ in [past] if past), *rest, **{ROW_ID: kept[ID]}).relocate(ROW_ID)
    inside = (kept[SPLIT] >= 0) & kept[task.label].notnull()
    return kept.filter(inside | kept[PAST] if past else inside)


@dataclass(frozen=True)
class TaskFeatures:
    """The features of a task."""

    #: The unbound table of the visible columns over which the features are expressed.
    rows: ir.Table
    #: Features by name, float32 or string.
    values: Mapping[str, ir.Value]

    def over(self, table: ir.Table) -> dict[str, ir.Value]:
        """Returns the features over `table`."""
        return {name: task_methods.move_to(table, self.rows, value) for name, value in self.values.items()}


def ask_features(task: TabularTask, table: ir.Table) -> TaskFeatures:
    """Returns the features over a table with event figures.

    Raises:
        UserError: the method `features` fails, or returns invalid features.
    """
    rows = task_methods.visible_table(table, _list_visible(task, table))
    return TaskFeatures(rows, _check_features(task, task_methods.call_method(task, "features", rows)))


def compute_values(task: TabularTask, table: ir.Table) -> dict[str, ir.Value]:
    """Returns the features by name over `table`. Raises the errors of `ask_features`."""
    return ask_features(task, table).over(table)


def list_notes(task: TabularTask, task_features: TaskFeatures, dialect: str) -> tuple[str, ...]:
    """Returns notes on expressions that nothing checks: those that this engine may compute differently and, without a
    time, those over several rows, which include test rows."""
    # Over the task's own columns: ids and the figures of events are the same on every engine.
    values = task_features.values
    return (*([] if dialect == "duckdb" else _own_ways(task, values)), *_find_aggregates(values, bool(task.time)))


def _own_ways(task: TabularTask, values: Mapping[str, ir.Value]) -> Iterator[str]:
    rows = task_methods.rows_of(task.schema)
    said: dict[str, ir.Expr] = {
        f"the events {name}": e.table for name, e in task_methods.call_method(task, "events", rows).items()
    }
    said |= {method: task_methods.call_method(task, method, rows) for method in ("labels", *["days"] * bool(task.time))}
    differing = {
        name: ways for name, value in {**values, **said}.items() if (ways := engine_agreement.find_differences(value))
    }
    if differing:
        parts = "; ".join(f"{name}: {', '.join(ways)}" for name, ways in differing.items())
        yield (
            f"BigQuery may compute these differently from DuckDB, which computes the features of a request: {parts}. "
            "docs/how-to/bigquery.md has the differences and alternatives."
        )


def _find_aggregates(values: Mapping[str, ir.Value], has_time: bool) -> Iterator[str]:
    several = [name for name, value in values.items() if engine_agreement.takes_several_rows(value.op())]
    if several and not has_time:
        yield (
            f"Computed over several rows, including rows of the test split: {join_names(several)}. For a table without "
            "a time this cannot be checked, and such a feature may leak test rows into training."
        )


def _list_visible(task: TabularTask, table: ir.Table) -> list[str]:
    hidden = {field.name for field in task.schema if field.known == "after"}
    return [name for name in table.columns if name not in hidden and name not in INTERNAL]


def _check_features(task: TabularTask, features: Mapping[str, object]) -> dict[str, ir.Value]:
    """Returns numbers as float32 and strings unchanged. Raises UserError for other types and invalid names."""
    if not features:
        raise UserError(f"{type(task).__name__}.features returns no columns: return at least one.")
    hidden = {field.name for field in task.schema if field.known == "after"}
    if leaks := sorted(hidden & features.keys()):
        raise UserError(f"the feature {leaks[0]} has the name of a column that is known only after the outcome.")
    reserved = {ROW_ID, task.label.lower()}  # engines ignore the case of names
    if clash := [name for name in features if str(name).lower() in reserved]:
        raise UserError(f"the feature {clash[0]} has the name of a column that every dataset has: rename it.")
    spelled = {group.lower(): group for group in task.groups}
    for name in features:
        if not isinstance(name, str):
            raise UserError(f"{type(task).__name__}.features calls a feature {name!r}: its name must be a text.")
        other = spelled.setdefault(str(name).lower(), name)
        if not name or RESERVED.fullmatch(str(name).lower()):
            raise UserError(f"{name!r} cannot be a feature: the name is empty or reserved. Rename the feature.")
        if other != name:
            raise UserError(f"the features {other} and {name}: no two names may differ in case only.")
    if lacking := [name for name in task.slices if name not in features]:
        raise UserError(f"the slice {lacking[0]} is none of the features {', '.join(features)}.")
    return {name: _check_feature(name, value) for name, value in features.items()}


def _check_feature(name: str, given: object) -> ir.Value:
    try:
        value = given if isinstance(given, ir.Value) else ibis.literal(given)
    except Exception:  # of Ibis, in many kinds
        raise UserError(f"the feature {name} is a {type(given).__name__}: give a column, or a number.") from None
    kind = value.type()
    if value.op().find(ops.Unnest):
        raise UserError(f"the feature {name} has several values for a row (unnest): a row has one of each feature.")
    if kind.is_numeric() or kind.is_boolean():
        return value.cast("float32")
    if kind.is_string():
        return value.fill_null("")
    raise UserError(f"the feature {name} is of type {kind}: make numbers or strings of it in `features`.")


def _group(task: TabularTask, group: str, table: ir.Table, names: list[str], dialect: str) -> ir.Value:
    if group == DAY:
        return table[DAY]
    if group not in names:
        raise UserError(
            f"{type(task).__name__}.group is {group!r}: neither a feature, nor a column known before the "
            "outcome, nor 'day' of a task with a time."
        )
    value = table[group]
    if value.type().is_date():
        return value.epoch_days().cast("int32")
    return to_epoch(value, dialect) if value.type().is_temporal() else value
