"""Reads a bounded sample of the newest rows of pinned data: features as `prepare` computes them, days and labels.

Of a task with a time whole days are read, the newest, with the days before them that rows look back on; of files only
those that have such days. Of one without a time the files are read that the champion did not have. What is read on the
way is bounded by bytes, and what is kept by rows.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import ibis
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vgp.base import engine_settings as settings
from vgp.base.storage.bigquery.jobs import Owner
from vgp.base.storage.storage import File
from vgp.data import data_days, destination, tasks
from vgp.data.engine import ID, Engine
from vgp.data.engines import engine_choice
from vgp.data.engines.engine_choice import Source, resolve_source
from vgp.data.identity import with_ids
from vgp.data.periods import format_spans_as_days
from vgp.data.prepare import read_pinned_input
from vgp.data.schema import arrow_schema, canonical_schema
from vgp.data.sources.table_files import NoRows
from vgp.data.splits import ByTime
from vgp.data.tables import engine_agreement, failed_rows, features, task_methods
from vgp.data.tables.features import LABEL, MARK, ROWS
from vgp.data.tabular import TabularTask
from vgp.data.windows import CALENDAR

#: Maximum number of bytes of files to read, and of rows to keep.
MOST_BYTES, MOST_ROWS = 2 << 30, 100_000
#: Days to read before the first new day, in addition to the hours that features look back: events may arrive late.
EARLIER_DAYS = 7


@dataclass(frozen=True)
class Look:
    """A sample of rows that the model has not seen, unordered."""

    task: TabularTask
    #: Features by name; text as it is, numbers as float32.
    columns: pa.Table
    #: Day of each row since 1970-01-01, int64 (N,); None if rows have no day.
    days: NDArray[np.int64] | None
    #: Class codes or numbers, float64 (N,); NaN where the label is not known yet.
    labels: NDArray[np.float64]
    #: Number of new rows that the sample was drawn from.
    rows: int
    #: A description of the sample, for people.
    what: str


@dataclass(frozen=True)
class Span:
    """A range of days since 1970-01-01: first day read, first day in the sample, last day."""

    before: int
    first: int
    last: int

    @property
    def whole(self) -> bool:
        """Whether the range starts at the beginning of the data."""
        return self.before == CALENDAR[0]


class CannotLook(Exception):
    """The new rows cannot be sampled; the message is the reason, for people."""


def read(pins: str, task: str, *, after: int | None, most_days: int, known: Collection[str], run: str) -> Look:
    """Returns a sample of the newest rows after the day `after`.

    Args:
        pins: URI of the data's pins.
        after: Last day that the champion was trained on; None if its rows have no day.
        most_days: Most days to read; the newest are taken.
        known: Files that the champion was trained on, as `name_version` names them.
        run: Name of the run that owns the queries.

    Raises:
        CannotLook: the sample would need all of the data, or no row is new.
        UserError: the data lacks a column, or `prepare` could not read it either.
    """
    data, options = read_pinned_input(pins, task)
    work = tasks.load(task, options)
    if not isinstance(work, TabularTask):
        raise CannotLook(f"{type(work).__name__} is no task over a table, and nothing else is sampled")
    by_time = isinstance(work.split, ByTime)
    if by_time and after is None:
        raise CannotLook("the champion does not record the days on which it was trained")
    newest = work.split.windows.end() - 1 if isinstance(work.split, ByTime) else 0
    if by_time and newest < 0:
        raise CannotLook("the windows have no dates")
    source = resolve_source(work, data.strip() or work.default_data(), settings.engines().bigquery)
    if source.files and source.relations:
        raise CannotLook("the data is files and tables of BigQuery together")
    if not by_time:
        return _read_new_files(work, source, known, run)
    assert after is not None
    folder = pins.rpartition("/")[0]
    present = data_days.read_days_by_file(work, source.files, folder, dry_run=True) if source.files else {}
    first = max(after + 1, newest - most_days + 1)
    if newest < first:
        raise CannotLook("no day is new")
    try:
        return _read_days(work, source, present, Span(first - _earlier_days(work), first, newest), run)
    except _LooksFar:
        return _read_days(work, source, present, Span(CALENDAR[0], first, newest), run)


def _read_days(
    task: TabularTask, source: Source, present: Mapping[str, data_days.Stretches], span: Span, run: str
) -> Look:  # fmt: skip
    chosen = [
        file
        for file in source.files
        if _overlaps(present[data_days.path_with_generation(file)], span.before, span.last)
    ]
    _check_size(chosen)
    count = span.last - span.first + 1
    words = (
        f"{format_spans_as_days([(span.first, span.last + 1)]).replace(':', ' to ')} ({count} day{'s' * (count != 1)})"
    )
    return _read(task, Source(chosen, source.relations), run, span, words)


def name_version(file: File) -> str:
    """Returns a name for this version of a file: an object's generation, or another file's modification time."""
    return (
        f"{data_days.path_with_generation(file)}@{file.version.modified_ns}"
        if file.version
        else data_days.path_with_generation(file)
    )


def _read_new_files(task: TabularTask, source: Source, known: Collection[str], run: str) -> Look:
    chosen = [file for file in source.files if name_version(file) not in known]
    if source.files and not chosen:
        raise CannotLook("no file is new")
    _check_size(chosen)
    words = f"{len(chosen):,} new file{'s' * (len(chosen) != 1)}" if chosen else "the table as it is now"
    return _read(task, Source(chosen, source.relations), run, None, words)


def _earlier_days(task: TabularTask) -> int:
    """Returns how many days features look back."""
    happened = task_methods.call_method(task, "events", ibis.table(canonical_schema(task.schema), name=ROWS))
    hours = [first for events in happened.values() for first, _ in events.windows]
    return -(-max(hours) // 24) + EARLIER_DAYS if hours else 0


def _overlaps(stretches: data_days.Stretches, first: int, last: int) -> bool:
    return any(start <= last and end >= first for start, end in stretches)


def _check_size(chosen: Sequence[File]) -> None:
    size = sum(file.bytes for file in chosen)
    if size > MOST_BYTES:
        raise CannotLook(
            f"the files with new rows have {size / 2**30:.1f} GiB, and a look reads at most {MOST_BYTES >> 30}: part "
            "them by day, or lower look_days"
        )


class _LooksFar(Exception):
    """A feature needs rows outside of the range that was read."""


def _read(task: TabularTask, source: Source, run: str, span: Span | None, words: str) -> Look:
    try:
        with (
            destination.scratch_folder() as task.scratch,
            _open_engine(task, source, run) as engine,
            failed_rows.name_errors(task, engine),
        ):
            return _read_look(task, engine, span, words)
    except NoRows:
        raise CannotLook("the new files have no rows") from None


@contextmanager
def _open_engine(task: TabularTask, source: Source, run: str) -> Iterator[Engine]:
    if source.relations:
        from vgp.data.engines.bigquery import BigQuery

        allowed, owner = settings.engines().bigquery, Owner(run, "resolve")
        with BigQuery.open(source.relations, task.schema, allowed, owner, values=False) as there:
            yield there
    else:
        key = task.key or [field.name for field in task.schema]
        with engine_choice.duckdb(task, source.files, task.scratch, task.schema, numbers={ID: key}) as here:
            yield here


def _read_look(task: TabularTask, engine: Engine, span: Span | None, words: str) -> Look:
    rows = features.add_marks(task, engine.source(), engine.dialect)
    if span:
        rows = rows.filter(rows[MARK].between(span.before, span.last))
    rows = with_ids(engine, rows, task.key, [field.name for field in task.schema])
    inside = rows.filter(rows[MARK] >= span.first) if span else rows
    count = int(engine.read(inside.agg(rows=inside.count()))["rows"][0].as_py())
    if not count:
        raise CannotLook(f"there is no row in {words}")
    joined = features.join_events(task, engine, engine.create_view(ROWS, rows))
    values = features.compute_values(task, joined)
    if span and not span.whole and any(engine_agreement.takes_several_rows(value.op()) for value in values.values()):
        raise _LooksFar
    rows = joined.select(joined[ID], joined[MARK], joined[LABEL], **values)
    rows = rows.filter(rows[MARK] >= span.first) if span else rows
    # Ids are hashes, so ids divisible by a number are a random sample, the same one on every engine.
    rows = rows.filter(rows[ID] % -(-count // MOST_ROWS) == 0)
    table = pa.Table.from_batches(list(engine.batches(rows)), arrow_schema(rows.schema()))
    marks, labels = (table[name].combine_chunks() for name in (MARK, LABEL))
    known = np.asarray(labels.cast(pa.float64()).fill_null(np.nan))
    return Look(task, table.drop_columns([ID, MARK, LABEL]), np.asarray(marks) if span else None, known, count, words)
