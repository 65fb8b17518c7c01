"""Which of a table's declared columns a model needs: new data lacks its label, and may lack what no feature is made of.

Whether a column is needed, the task's own expressions tell: they are asked over a table without it.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

import ibis.expr.types as ir

from vgp.base.exits import UserError
from vgp.data.tables import agreeing, rebased
from vgp.data.tabular import TabularTask


def needed(task: TabularTask, learned: Collection[str], absent: Iterable[str]) -> list[str]:
    """Those of the absent columns without which the features cannot be computed.

    Args:
        learned: The features that the model takes.
    """
    absent = list(absent)
    alone = [name for name in absent if not _computable(task, learned, {name})]
    if not alone and absent and not _computable(task, learned, set(absent)):
        return absent
    return alone


def keep(task: TabularTask, present: Collection[str]) -> None:
    """Has the task declare these columns alone; what is known only after the outcome may be empty in all of them."""
    kept = [field for field in task.schema if field.name in present]
    task.__dict__["schema"] = tuple(replace(f, nullable=True) if f.known == "after" else f for f in kept)


def expect(task: TabularTask, learned: Collection[str]) -> None:
    """Has the task expect new data: what is known only after the outcome may be empty, and its columns may not be there
    at all, but for those that `events` look back on; so also the column that says the split."""
    after = [field.name for field in task.schema if field.known == "after"]
    spare = {*after, task.split.column} - {*needed(task, learned, [*after, *filter(None, [task.split.column])])}
    task.__dict__["schema"] = tuple(
        replace(field, optional=field.name in spare, nullable=field.nullable or field.name in {*after, *spare})
        for field in task.schema
    )


def looks_back(task: TabularTask) -> list[str]:
    """What of a row is made of other rows too: its features over several, and what `events` counts."""
    events = rebased.said(task, "events", rebased.rows_of(task.schema))
    values = rebased.said(task, "features", rebased.seen(task.schema, events))
    several = [name for name, value in values.items()
               if isinstance(value, ir.Value) and agreeing.takes_several_rows(value.op())]  # fmt: skip
    return [*events, *several]


def _computable(task: TabularTask, learned: Collection[str], without: Collection[str]) -> bool:
    fields = [field for field in task.schema if field.name not in without]
    try:
        events = rebased.said(task, "events", rebased.rows_of(fields))
        made = rebased.said(task, "features", rebased.seen(fields, events))
    except UserError:
        return False
    asked = {name for event in events.values() for name in (*event.by, event.hour, event.value, event.weight)}
    return set(learned) <= set(made) and not asked & set(without)
