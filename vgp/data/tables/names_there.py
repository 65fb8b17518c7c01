"""Names that BigQuery's columns and tables cannot have, told before anything runs there.

https://cloud.google.com/bigquery/docs/schemas#column_names, and #flexible-column-names for letters beyond ASCII;
https://cloud.google.com/bigquery/docs/tables#table_naming
"""

import re
from collections.abc import Iterator

from vgp.base.exits import UserError
from vgp.base.text.printable import quoted
from vgp.data.tables import rebased
from vgp.data.tabular import TabularTask

MOST_LETTERS = 300
NEVER = re.compile(r'[!"$()*,./;?@\[\\\]^`{}~\x00-\x1f]')
TAKEN = re.compile(
    r"_(table_|file_|partition|row_timestamp|_root__|colidentifier|change_(sequence_number|type|timestamp))", re.I
)


def check(task: TabularTask) -> None:
    """Raises UserError for a column, declared or made, whose name BigQuery refuses."""
    for what, name in _named(task):
        if wrong := NEVER.search(name):
            why = f"holds {quoted(wrong[0])}, which a column of BigQuery cannot"
        elif taken := TAKEN.match(name):
            why = f"begins with {taken[0]}, which is BigQuery's own"
        elif len(name) > MOST_LETTERS:
            why = f"is longer than the {MOST_LETTERS} letters of a column of BigQuery"
        else:
            continue
        raise UserError(f"{type(task).__name__}: the name of {what} {quoted(name)} {why}. Rename it.")


def _named(task: TabularTask) -> Iterator[tuple[str, str]]:
    yield from (("the column", field.name) for field in task.schema)
    yield "the label", task.label
    events = rebased.said(task, "events", rebased.rows_of(task.schema))
    yield from (("the events", str(name)) for name in events)
    features = rebased.said(task, "features", rebased.seen(task.schema, events))
    yield from (("the feature", str(name)) for name in features)
