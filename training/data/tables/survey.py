"""What must be known of all rows before their splits are chosen: how many have a label, and that every label is one."""

from collections import Counter
from dataclasses import dataclass, field

import ibis.expr.types as ir

from training.data.engines import Engine
from training.data.tables import rebased
from training.data.tabular import TabularTask


@dataclass
class Survey:
    """Rows by the mark that decides their split, such as their day."""

    rows: int = 0
    labelled: Counter[int] = field(default_factory=Counter)
    unlabelled: Counter[int] = field(default_factory=Counter)


def survey(engine: Engine, marked: ir.Table) -> Survey:
    """Counts the rows of a table with `_mark` and `_label`."""
    counted = engine.read(
        marked.group_by("_mark").agg(rows=marked.count(), labelled=marked["_label"].count())
    ).to_pylist()
    result = Survey(rows=sum(row["rows"] for row in counted))
    for row in counted:
        if row["labelled"]:
            result.labelled[row["_mark"]] = row["labelled"]
        if row["rows"] - row["labelled"]:
            result.unlabelled[row["_mark"]] = row["rows"] - row["labelled"]
    return result
