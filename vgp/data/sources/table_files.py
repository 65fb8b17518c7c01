"""Reads the rows of all files in order, as typed and checked Arrow batches with the file and position of each row."""

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
from vgp.data.sources import data_files, file_bytes, parquet, text_blocks
from vgp.data.sources.data_files import Reading
from vgp.data.sources.file_bytes import open_local
from vgp.data.sources.parquet import Stored
from vgp.data.sources.text_blocks import Block, Layouts
from vgp.data.sources.values import Mistake, check, choose_memory_type
from vgp.protocol.cluster import cores
from vgp.protocol.manifest import SourceFile

#: Additional columns: the index of the row's file, and the index of the row in its file.
FILE, RECORD = "_file", "_record"
#: The least rows of a batch, apart from the last one.
BATCH_ROWS = 16_384

Result = TypeVar("Result")


class NoRows(UserError):
    """All files are empty except for their headers."""


@dataclass(frozen=True)
class Rows:
    """Rows of one or several files; `runs` has the index and the number of rows of each file."""

    table: pa.Table
    runs: tuple[tuple[int, int], ...]


Task = Callable[[], list[Rows]]
Part = Block | Stored


class Files:
    """The declared columns of some files.

    Args:
        fields: The columns to read; other columns of the files are ignored.
        scratch: The folder for a few local copies of objects.
        threads: The most threads that read; 0 = the number of cores. The rows do not depend on it.
    """

    def __init__(
        self, files: Sequence[File], fields: Sequence[Field], reading: Reading, scratch: Path, *, threads: int = 0
    ):
        self.files, self.fields, self.reading, self.scratch = files, fields, reading, scratch
        self.threads = threads or cores()
        #: All files with their checksums, after the end of `batches`.
        self.sources: tuple[SourceFile, ...] = ()
        #: One sentence for each unusual thing in the files, after the end of `batches`.
        self.notes: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The schema of full batches: the declared columns, with text as dictionaries, and `_file` and `_record`."""
        return _build_schema(self.fields)

    def check_first(self) -> None:
        """Raises UserError unless the first file is readable and has the declared columns. Checks no values."""
        first = Files(self.files[:1], self.fields, self.reading, self.scratch)
        with (
            closing(first._list_parts(self.fields, Layouts(self.fields, self.reading), [])) as parts,
            suppress(Mistake),
        ):
            next(parts, None)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yields the rows of all files in order, in batches of tens of thousands.

        Missing values are null; missing strings are "".

        Args:
            columns: Declared columns to read and check; None = all.

        Raises:
            UserError: a file is damaged, lacks a column, or has a wrong or missing value (with file, line and column);
                a file changed while it was read; or no file has rows.
        """
        fields = [field for field in self.fields if columns is None or field.name in columns]
        rows = Counter[int]()
        try:
            yield from _merge_tables(
                _number_rows(in_order(self._list_tasks(fields), self.threads), rows), _build_schema(fields)
            )
        except Mistake as mistake:
            record = rows[mistake.file] + mistake.record
            raise UserError(f"{self.place(mistake.file, record)}{mistake.text}") from None
        if not rows.total():
            names = ", ".join(storage.plain(file.path) for file in self.files[:3]) + ", ..." * (len(self.files) > 3)
            raise NoRows(f"{names} has no rows: {len(self.files)} file(s) with a header and nothing below it.")

    def place(self, file: int, record: int) -> str:
        """Returns the place of a row, such as `flights.csv, line 12`, from its `_file` and `_record`."""
        name = storage.plain(self.files[file].path)
        if data_files.suffix(name) == ".parquet":
            return f"{name}, row {record + 1:,}"
        with closing(file_bytes.stage_files([self.files[file]], self.scratch)) as local:
            _, chosen, path = next(local)
            with open_local(chosen, path, data_files.suffix(name)) as stream:
                blocks = text_blocks.read_blocks(file, stream, Layouts(self.fields, self.reading))
                return f"{name}, line {_find_line(blocks, record)}"

    def _list_tasks(self, fields: Sequence[Field]) -> Generator[Task]:
        """Yields the reading tasks for all rows in order."""
        sources: list[SourceFile] = []
        layouts = Layouts(self.fields, self.reading)
        yield from read_tasks(self._list_parts(fields, layouts, sources), fields)
        self.sources, self.notes = tuple(sources), (*_note_formats(self.files), *layouts.notes())

    def _list_parts(self, fields: Sequence[Field], layouts: Layouts, sources: list[SourceFile]) -> Generator[Part]:
        types = parquet.Types()
        with closing(file_bytes.stage_files(self.files, self.scratch)) as local:
            for number, file, path in local:
                with open_local(file, path, data_files.suffix(storage.plain(file.path))) as stream:
                    if stream.suffix == ".parquet":
                        yield from parquet.read_parts(number, stream, fields, self.fields, types)
                    else:
                        yield from text_blocks.read_blocks(number, stream, layouts)
                    sources.append(stream.source())


def _note_formats(files: Sequence[File]) -> Iterator[str]:
    """Yields a note if the files have several formats."""
    counts = Counter(data_files.suffix(storage.plain(file.path)) for file in files)
    if len({data_files.KINDS[suffix] for suffix in counts}) > 1:
        kinds = " and ".join(f"{count:,} {suffix}" for suffix, count in sorted(counts.items()))
        yield f"The data is of several kinds, and all are read: {kinds}."


def _number_rows(results: Iterator[list[Rows]], counted: Counter[int]) -> Iterator[pa.Table]:
    """Appends `_file` and `_record` to the rows. Updates `counted`, the number of rows of each file so far."""
    for rows in chain.from_iterable(results):
        files = np.repeat(*np.array(rows.runs or [(0, 0)], np.int32).T)
        starts = []
        for file, count in rows.runs:
            starts.append(np.arange(counted[file], counted[file] + count))
            counted[file] += count
        records = np.concatenate([np.zeros(0, np.int64), *starts])
        yield rows.table.append_column(FILE, pa.array(files)).append_column(RECORD, pa.array(records))


def _merge_tables(tables: Iterator[pa.Table], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Merges the tables to batches of at least BATCH_ROWS rows; the last may have fewer."""
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


def _build_schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([*build_memory_schema(fields), (FILE, pa.int32()), (RECORD, pa.int64())])


def _find_line(parts: Iterator[Block], record: int) -> int:
    """Returns the line number, from 1, at which a record of a file starts."""
    lines = 1
    try:
        for block in parts:
            lines += block.lines
            if (before := block.layout.line(block.data, record)) >= 0:
                return lines + before
            record -= -1 - before
            lines += block.data.count(b"\n")
    except Mistake:  # the record itself does not end
        pass
    return lines


# ---- blocks of records as typed rows: many small files at once, or one by one to find a mistake


def read_tasks(parts: Iterator[Part], fields: Sequence[Field]) -> Generator[Task]:
    """Yields the tasks that read all parts. Consecutive parts with one layout make one task."""
    group: list[Part] = []
    size = 0
    failure: Exception | None = None
    try:
        for part in parts:
            size += part.size
            if group and (size > file_bytes.BLOCK_BYTES or part.layout != group[0].layout):
                yield partial(read, group, fields)
                group, size = [], part.size
            group.append(part)
    except Exception as error:  # raised after the parts before it, which may have an error of their own
        failure = error
    if group:
        yield partial(read, group, fields)
    if failure:
        raise failure


def read(group: Sequence[Part], fields: Sequence[Field]) -> list[Rows]:
    """Reads the rows of parts with one layout. Raises Mistake."""
    if len(group) > 1 and (joined := _read_group(group, fields)):
        return [joined]
    rows: list[Rows] = []
    for part in group:
        before = sum(count for done in rows for file, count in done.runs if file == part.file)
        try:
            table = _read_table(part, fields)
        except Mistake as mistake:
            raise mistake.after(before, part.file) from None
        rows.append(Rows(table, ((part.file, table.num_rows),)))
    return rows


def _read_group(group: Sequence[Part], fields: Sequence[Field]) -> Rows | None:
    """Reads all parts at once. Returns None for a mistake, or if the rows cannot be assigned to their files."""
    try:
        if isinstance(group[0], Stored):
            tables = [part.table for part in group if isinstance(part, Stored)]
            counts = [table.num_rows for table in tables]
            # Combined, because each chunk of a column is converted separately.
            table = parquet.convert_table(pa.concat_tables(tables).combine_chunks(), fields)
        else:
            texts = [part.with_line_end() for part in group if isinstance(part, Block)]
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


def _read_table(part: Part, fields: Sequence[Field]) -> pa.Table:
    """Reads the rows of one part. Raises Mistake."""
    if isinstance(part, Stored):
        table = parquet.convert_table(part.table, fields)
    elif not re.search(rb"[^\r\n]", part.data):
        table = build_memory_schema(fields).empty_table()
    else:
        try:
            table = part.layout.read(part.data, fields)
        except pa.ArrowInvalid as error:
            raise part.layout.mistake(part.data, str(error), part.last, fields) from None
    check(table, fields)
    return table


def build_memory_schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([(field.name, choose_memory_type(field.type)) for field in fields])


def in_order(tasks: Generator[Callable[[], Result]], threads: int) -> Iterator[Result]:
    """Runs the tasks in threads and yields their results in order. Raises the first error, of a task or of `tasks`."""
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
