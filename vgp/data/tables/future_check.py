"""Refuses features that look into the future: a row's features may not change when later rows are left out.

The features of the earliest rows are computed a second time, from a source that ends with them. A feature that differs
uses later rows, an average over all rows, or an undefined order.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import ibis.expr.datatypes as dt
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data.engine import ID, PLACE, Engine
from vgp.data.identity import BITS
from vgp.data.split_parts import Planned
from vgp.data.tables import features
from vgp.data.tabular import TabularTask

#: The most rows to compute twice, and the most of their values to hold in memory.
MOST_ROWS = 50_000
MOST_VALUES = 2_000_000
#: The allowed difference of float sums, relative to a value and to the column's mean magnitude.
TOLERANCE = 1e-5
#: The lengths of a day and of an hour in a timestamp's microseconds, and of a day in a date's days.
_MICROS, _DAYS = (86_400_000_000, 3_600_000_000), (1,)


@dataclass(frozen=True)
class Past:
    """The rows before a moment, with the features computed from these rows alone."""

    task: TabularTask
    engine: Engine
    marked: ir.Table
    #: In the unit of `_when`.
    moment: int
    #: Rows with ids below this are compared.
    below: int
    #: The features, sorted by `row_id`.
    rows: pa.Table

    def drop_compared_rows(self, batches: Generator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the finished rows without those that are only compared.

        Raises:
            UserError: a feature changes when later rows are left out.
        """
        for batch in batches:
            compared = pa.table(_filter(batch, batch[features.PAST]))
            changed = self._find_changes(compared)
            if names := [name for name, rows in changed.items() if len(rows)]:
                batches.close()  # an engine runs one query at a time
                raise UserError(self._looks_ahead(names, compared[features.ROW_ID][changed[names[0]][0]].as_py()))
            inside = pc.and_(pc.greater_equal(batch[features.SPLIT], 0), batch[self.task.label].is_valid())
            yield _filter(batch, inside).drop_columns([features.PAST])

    def _find_changes(self, compared: pa.Table) -> dict[str, NDArray[np.int64]]:
        """Returns, for each feature, the rows in which it differs from the value without later rows."""
        ids = compared[features.ROW_ID].to_numpy()
        alone = self.rows.take(np.searchsorted(self.rows[features.ROW_ID].to_numpy(), ids))
        others = (features.ROW_ID, features.SPLIT, features.PAST, self.task.label)
        names = [name for name in alone.column_names if name not in others]
        pairs = ((name, compared[name].combine_chunks(), alone[name].combine_chunks()) for name in names)
        return {name: np.flatnonzero(_differ(one, other)) for name, one, other in pairs}

    def _looks_ahead(self, names: list[str], row_id: int) -> str:
        source = self.marked.filter(self.marked[ID] == row_id)
        place = [name for name in PLACE if name in source.columns] or list(self.task.key) or source.columns
        where = self.engine.place(self.engine.read(source.select(place).limit(1)).to_pylist()[0])
        change, look = ("change", "they look") if len(names) > 1 else ("changes", "it looks")
        moment = _format_moment(self.moment, self.marked[self.task.time].type())
        return (
            f"the feature{'s' * (len(names) > 1)} {join_names(names)} of the row in {where} {change} when the "
            f"rows from {moment} on are left out: {look} into the future. "
            "Features may use the rows before, in a stated order; `events` has what lately happened."
        )


def compute_past(task: TabularTask, engine: Engine, marked: ir.Table, planned: Planned) -> Past | None:
    """Computes the features of the rows before an early moment; None without a time, or with a single moment."""
    if not task.time:
        return None
    moment, before = _choose_moment(engine, marked, marked[task.time].type())
    if not before:
        return None
    early = engine.create("past_rows", marked.filter(marked[features.WHEN] < moment))
    joined = features.join_events(task, engine, engine.create_view(features.ROWS, early))
    width = len(task.schema)
    below = min(2**BITS, 2**BITS * min(MOST_ROWS, MOST_VALUES // width) // before)
    alone = features.finish_rows(task, joined, planned, engine.dialect, (moment, below))
    # The same expression as for all rows later, so that an engine can reuse its query.
    return Past(task, engine, marked, moment, below, engine.read(alone).sort_by(features.ROW_ID))


def _choose_moment(engine: Engine, marked: ir.Table, kind: dt.DataType) -> tuple[int, int]:
    """Returns a moment and the number of rows before it, if possible at most half of all; 0 if all have one time."""
    moment, before = 0, 0
    for length in _MICROS if kind.is_timestamp() else _DAYS:
        span = (marked[features.WHEN] // length).cast("int64")
        counted = engine.read(marked.group_by(span=span).agg(rows=marked.count()).order_by("span"))
        rows = np.cumsum(counted["rows"].to_numpy())
        most = min(MOST_ROWS, rows[-1] // 2) if len(rows) else 0
        last = min(max(1, int(np.searchsorted(rows, most, side="right"))), len(rows) - 1)
        if last > 0:
            moment, before = counted["span"][last].as_py() * length, int(rows[last - 1])
        if 0 < before <= MOST_ROWS:
            break
    return moment, before


def _filter(batch: pa.RecordBatch, kept: pa.BooleanArray) -> pa.RecordBatch:
    """Filters a batch, without a copy if all or none of the rows are kept."""
    count = kept.true_count
    return batch.filter(kept) if 0 < count < len(kept) else batch.slice(0, count)


def _differ(left: pa.Array, right: pa.Array) -> NDArray[np.bool_]:
    if pa.types.is_string(left.type):
        return np.asarray(pc.not_equal(left.fill_null(""), right.fill_null("")))
    first, second = (np.asarray(values.cast(pa.float64()).fill_null(np.nan)) for values in (left, right))
    sizes = np.abs(second[np.isfinite(second)])
    small = TOLERANCE * (sizes.mean() if len(sizes) else 0)
    return np.asarray(~np.isclose(first, second, rtol=TOLERANCE, atol=small, equal_nan=True))


def _format_moment(moment: int, kind: dt.DataType) -> str:
    if not kind.is_timestamp():
        return str(date(1970, 1, 1) + timedelta(days=moment))
    zone = " UTC" * bool(kind.timezone)
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment):%Y-%m-%d %H:%M}{zone}"
