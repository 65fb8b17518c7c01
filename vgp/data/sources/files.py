"""The rows of all files, in order, as typed and checked Arrow batches that know where they lie."""

import re
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.finding import File
from vgp.data.schema import Field
from vgp.data.sources import blocks, opening, parquet, resolve
from vgp.data.sources.blocks import Block, Layouts
from vgp.data.sources.opening import opened
from vgp.data.sources.parquet import Stored
from vgp.data.sources.resolve import Reading
from vgp.data.sources.values import Mistake, check, held
from vgp.protocol.cluster import cores
from vgp.protocol.manifest import SourceFile

#: Columns beside the declared ones: the position of the row's file among all, and the row's among those of its file.
FILE, RECORD = "_file", "_record"
#: Fewer rows are put together with those that follow.
BATCH_ROWS = 16_384

Result = TypeVar("Result")


class NoRows(UserError):
    """All files are empty but for their headers."""


@dataclass(frozen=True)
class Rows:
    """Rows of one file or several: of each its position, and how many."""

    table: pa.Table
    runs: tuple[tuple[int, int], ...]


Task = Callable[[], list[Rows]]
Part = Block | Stored


class Files:
    """The declared columns of some files.

    Args:
        fields: The columns; others in the files are passed over.
        scratch: Where objects are kept while they are read: a few at a time.
        threads: At most so many read at the same time; 0 = as many as there are cores. They change no row.
    """

    def __init__(
        self, files: Sequence[File], fields: Sequence[Field], reading: Reading, scratch: Path, *, threads: int = 0
    ):
        self.files, self.fields, self.reading, self.scratch = files, fields, reading, scratch
        self.threads = threads or cores()
        #: Every file with its checksum, once `batches` has come to its end.
        self.sources: tuple[SourceFile, ...] = ()
        #: What was found in the files and is not usual, one sentence each, once `batches` has come to its end.
        self.notes: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """Of the batches with all columns: the declared ones in their declared types, text as dictionaries, and
        `_file` and `_record`."""
        return _schema(self.fields)

    def check_first(self) -> None:
        """Raises UserError unless the first file can be read and has the declared columns; no value is looked at."""
        first = Files(self.files[:1], self.fields, self.reading, self.scratch)
        with closing(first._parts(self.fields, Layouts(self.fields, self.reading), [])) as parts, suppress(Mistake):
            next(parts, None)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of all files, in order; each batch has tens of thousands, the last fewer.

        Missing values are null, of strings "".

        Args:
            columns: Some of the declared ones; None = all. No more is read than they need, and only they are checked.

        Raises:
            UserError: a file is damaged, lacks a column, holds a value of another type or none where one must be;
                names file, line and column. Or it was written to meanwhile, or no file has a row.
        """
        fields = [field for field in self.fields if columns is None or field.name in columns]
        rows = Counter[int]()
        try:
            yield from _merged(_numbered(in_order(self._tasks(fields), self.threads), rows), _schema(fields))
        except Mistake as mistake:
            record = rows[mistake.file] + mistake.record
            raise UserError(f"{self.place(mistake.file, record)}{mistake.says}") from None
        if not rows.total():
            names = ", ".join(storage.plain(file.path) for file in self.files[:3]) + ", ..." * (len(self.files) > 3)
            raise NoRows(f"{names} has no rows: {len(self.files)} file(s) with a header and nothing below it.")

    def place(self, file: int, record: int) -> str:
        """Where a row lies, such as `flights.csv, line 12`: its `_file` and its `_record`."""
        name = storage.plain(self.files[file].path)
        if resolve.suffix(name) == ".parquet":
            return f"{name}, row {record + 1:,}"
        with closing(opening.staged([self.files[file]], self.scratch)) as local:
            _, chosen, path = next(local)
            with opened(chosen, path, resolve.suffix(name)) as stream:
                return f"{name}, line {_line(blocks.of(file, stream, Layouts(self.fields, self.reading)), record)}"

    def _tasks(self, fields: Sequence[Field]) -> Generator[Task]:
        """What to do for all rows, in their order."""
        sources: list[SourceFile] = []
        layouts = Layouts(self.fields, self.reading)
        yield from read_tasks(self._parts(fields, layouts, sources), fields)
        self.sources, self.notes = tuple(sources), (*_several(self.files), *layouts.notes())

    def _parts(self, fields: Sequence[Field], layouts: Layouts, sources: list[SourceFile]) -> Generator[Part]:
        types = parquet.Types()
        with closing(opening.staged(self.files, self.scratch)) as local:
            for number, file, path in local:
                with opened(file, path, resolve.suffix(storage.plain(file.path))) as stream:
                    if stream.suffix == ".parquet":
                        yield from parquet.parts(number, stream, fields, self.fields, types)
                    else:
                        yield from blocks.of(number, stream, layouts)
                    sources.append(stream.source())


def _several(files: Sequence[File]) -> Iterator[str]:
    """What is said of files of several kinds."""
    counts = Counter(resolve.suffix(storage.plain(file.path)) for file in files)
    if len({resolve.KINDS[suffix] for suffix in counts}) > 1:
        kinds = " and ".join(f"{count:,} {suffix}" for suffix, count in sorted(counts.items()))
        yield f"The data is of several kinds, and all are read: {kinds}."


def _numbered(results: Iterator[list[Rows]], counted: Counter[int]) -> Iterator[pa.Table]:
    """The rows with their files and records; `counted` has the rows of each file so far."""
    for rows in chain.from_iterable(results):
        files = np.repeat(*np.array(rows.runs or [(0, 0)], np.int32).T)
        starts = []
        for file, count in rows.runs:
            starts.append(np.arange(counted[file], counted[file] + count))
            counted[file] += count
        records = np.concatenate([np.zeros(0, np.int64), *starts])
        yield rows.table.append_column(FILE, pa.array(files)).append_column(RECORD, pa.array(records))


def _merged(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at least BATCH_ROWS, but for the last."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(table.num_rows for table in waiting) >= BATCH_ROWS:
            yield from _batch(waiting, schema)
            waiting = []
    yield from _batch(waiting, schema)


def _batch(tables: list[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if rows := sum(table.num_rows for table in tables):
        typed = [table.cast(schema) for table in tables]
        yield from pa.concat_tables(typed).combine_chunks().to_batches(rows)


def _schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([*held_schema(fields), (FILE, pa.int32()), (RECORD, pa.int64())])


def _line(parts: Iterator[Block], record: int) -> int:
    """The line at which a record of a file starts, as an editor shows it."""
    lines = 1
    try:
        for block in parts:
            lines += block.lines
            if (before := block.layout.line(block.data, record)) >= 0:
                return lines + before
            record -= -1 - before
            lines += block.data.count(b"\n")
    except Mistake:  # it is the record that does not end
        pass
    return lines


# ---- blocks of records as typed rows: those of many small files in one go, or one by one where something is wrong


def read_tasks(parts: Iterator[Part], fields: Sequence[Field]) -> Generator[Task]:
    """What is to be done for all parts: those that follow each other, and are laid out alike, are one task."""
    group: list[Part] = []
    size = 0
    failure: Exception | None = None
    try:
        for part in parts:
            size += part.size
            if group and (size > opening.BLOCK_BYTES or part.layout != group[0].layout):
                yield partial(read, group, fields)
                group, size = [], part.size
            group.append(part)
    except Exception as error:  # those before it may have one of their own
        failure = error
    if group:
        yield partial(read, group, fields)
    if failure:
        raise failure


def read(group: Sequence[Part], fields: Sequence[Field]) -> list[Rows]:
    """The rows of parts that are laid out alike. Raises Mistake."""
    if len(group) > 1 and (joined := _joined(group, fields)):
        return [joined]
    rows: list[Rows] = []
    for part in group:
        before = sum(count for done in rows for file, count in done.runs if file == part.file)
        try:
            table = _table(part, fields)
        except Mistake as mistake:
            raise mistake.after(before, part.file) from None
        rows.append(Rows(table, ((part.file, table.num_rows),)))
    return rows


def _joined(group: Sequence[Part], fields: Sequence[Field]) -> Rows | None:
    """None if something is wrong, or it cannot be told which row is whose."""
    try:
        if isinstance(group[0], Stored):
            tables = [part.table for part in group if isinstance(part, Stored)]
            counts = [table.num_rows for table in tables]
            # In one piece, as every piece of a column is converted on its own.
            table = parquet.converted(pa.concat_tables(tables).combine_chunks(), fields)
        else:
            texts = [part.ended() for part in group if isinstance(part, Block)]
            counts = [text.count(b"\n") for text in texts]
            if any(b"\r" in text and b"\r" in text.replace(b"\r\n", b"") for text in texts):
                return None
            table = group[0].layout.read(b"".join(texts), fields)
            if sum(counts) != table.num_rows:  # blank lines, or line breaks within quotes
                counts = [group[0].layout.count(text) for text in texts]
        check(table, fields)
    except (Mistake, pa.ArrowInvalid):
        return None
    if sum(counts) != table.num_rows:
        return None
    return Rows(table, tuple(zip((part.file for part in group), counts, strict=True)))


def _table(part: Part, fields: Sequence[Field]) -> pa.Table:
    """Raises Mistake."""
    if isinstance(part, Stored):
        table = parquet.converted(part.table, fields)
    elif not re.search(rb"[^\r\n]", part.data):
        table = held_schema(fields).empty_table()
    else:
        try:
            table = part.layout.read(part.data, fields)
        except pa.ArrowInvalid as error:
            raise part.layout.mistake(part.data, str(error), part.last, fields) from None
    check(table, fields)
    return table


def held_schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([(field.name, held(field.type)) for field in fields])


def in_order(tasks: Generator[Callable[[], Result]], threads: int) -> Iterator[Result]:
    """What the tasks return, in their order; so also the error of a task, or the one that ended them."""
    waiting: deque[Future[Result]] = deque()
    failure: Exception | None = None
    pool = ThreadPoolExecutor(threads)
    try:
        while True:
            try:
                waiting.append(pool.submit(next(tasks)))
            except StopIteration:
                break
            except Exception as error:
                failure = error
                break
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
        tasks.close()
    if failure:
        raise failure
