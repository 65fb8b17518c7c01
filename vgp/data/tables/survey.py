"""What must be known of all rows before their splits are chosen: how many have a label, and that every label is one."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ibis.expr.types as ir

from vgp.base.exits import UserError
from vgp.base.printable import quoted
from vgp.data.engine import Engine
from vgp.data.tabular import TabularTask
from vgp.data.windows import CALENDAR


@dataclass
class Survey:
    """Rows by the mark that decides their split, such as their day."""

    rows: int = 0
    labelled: Counter[int] = field(default_factory=Counter)
    unlabelled: Counter[int] = field(default_factory=Counter)


def survey(engine: Engine, task: TabularTask, marked: ir.Table) -> Survey:
    """Counts the rows of the source with `_mark` and `_label`.

    Raises:
        UserError: a label is no class, or infinite, or a row cannot be split; names the row.
    """
    label, mark, (first, last) = marked["_label"], marked["_mark"], CALENDAR
    wrong = (label.isinf() if task.regression else (label < 0) | (label >= len(task.classes))).fill_null(False)
    counted = marked.group_by("_mark").agg(rows=marked.count(), labelled=label.count(), wrong=wrong.sum())
    marks = engine.read(counted).to_pylist()
    if any(row["wrong"] for row in marks):
        row = _first(engine, task, marked.filter(wrong))
        raise UserError(f"{engine.place(row)}: {_no_label(task, row)}")
    if any(row["_mark"] is None or not first <= row["_mark"] <= last for row in marks):
        row = _first(engine, task, marked.filter(mark.isnull() | ~mark.between(first, last)))
        raise UserError(f"{engine.place(row)}: {task.split.wrong(row)}")
    labelled = {row["_mark"]: row["labelled"] for row in marks}
    unlabelled = {row["_mark"]: row["rows"] - row["labelled"] for row in marks}
    return Survey(sum(row["rows"] for row in marks), +Counter(labelled), +Counter(unlabelled))


def _first(engine: Engine, task: TabularTask, rows: ir.Table) -> dict[str, Any]:
    """The first of the rows in the order of the files, or of the key."""
    place = [name for name in ("_file", "_record") if name in rows.columns]
    names = [field.name for field in task.schema]
    first = rows.order_by(place or list(task.key) or names).select(*names, "_label", *place).limit(1)
    return dict(engine.read(first).to_pylist()[0])


def _no_label(task: TabularTask, row: Mapping[str, Any]) -> str:
    label = row[task.target] if task.target else row["_label"]
    shown = quoted(label) if isinstance(label, str) else label
    if task.regression:
        return f"the label {shown} is no number that can be learned: bound it in `labels`, or make it null = unknown."
    codes = "" if task.target else f" (codes 0 to {len(task.classes) - 1})"
    return f"the label {shown} is none of {', '.join(task.classes)}{codes}."
