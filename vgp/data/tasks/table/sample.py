"""Reads a sample of a table without a declaration, through the readers of `vgp.data.sources`."""

import codecs
import re
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.parquet

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.base.storage.finding import File
from vgp.base.text.printable import join_names
from vgp.data.schema import Field
from vgp.data.sources import data_files, file_bytes, parquet, records
from vgp.data.sources.data_files import Reading
from vgp.data.sources.file_bytes import OpenedFile, decode_text, open_local
from vgp.data.sources.json_lines import JsonLines, require_lines
from vgp.data.sources.records import check_names, find_header_end, read_header
from vgp.data.sources.table_files import RECORD, Files
from vgp.data.sources.text_blocks import SEPARATOR_LINE
from vgp.data.tasks.table import spread_sample
from vgp.data.tasks.table.declaration import MOST_COLUMNS, too_many_columns

#: The most rows of a sample, and the most bytes of a file of JSON lines.
MOST_ROWS = 100_000
MOST_BYTES = 64 << 20
#: The most files, evenly spread, and the largest object, because objects are fetched whole.
MOST_FILES = 8
MOST_OBJECT_BYTES = 4 << 30


@dataclass(frozen=True)
class Sample:
    """Rows of a table. All columns of CSV are text."""

    rows: pa.Table
    #: Whether the sample is the whole table.
    whole: bool
    #: The user's setting `data`, and the number of its files.
    data: str
    files: int
    #: The format of CSV files, where it is not the default.
    reading: Reading
    #: Whether the rows come from all parts of the files; otherwise they are the first rows.
    spread: bool = False

    @property
    def words(self) -> str:
        """A phrase that describes the sample."""
        rows = f"{self.rows.num_rows:,} rows"
        return f"all {rows}" if self.whole else f"{rows} from all parts of it" if self.spread else f"the first {rows}"


def read_sample(data: str) -> Sample:
    """Reads all rows of a small table, or rows from all parts of a large one.

    Reads the first rows of a large table if its parts cannot be read separately, for example because of quoted line
    breaks.

    Raises:
        UserError: `data` matches no file, the table has less than two columns or rows, or a file is damaged.
    """
    files = data_files.resolve(data)
    chosen = [files[i * len(files) // MOST_FILES] for i in range(MOST_FILES)] if len(files) > MOST_FILES else files
    for file in chosen:
        if storage.is_remote(file.path) and file.bytes > MOST_OBJECT_BYTES:
            raise UserError(
                f"{file.path} has {file.bytes >> 30} GiB, and the command would download all of it. Give a smaller "
                "object with the same columns, such as one day of data; the task.toml fits all of it."
            )
    with tempfile.TemporaryDirectory() as scratch:
        fields, reading = _fields(chosen[0], Path(scratch))
        rows, whole = _first(chosen, fields, reading, Path(scratch))
        sampled = None if whole and rows.num_rows <= MOST_ROWS else _spread(chosen, fields, reading, Path(scratch))
    rows, whole = (rows if sampled is None else sampled).slice(0, MOST_ROWS), whole and rows.num_rows <= MOST_ROWS
    _require(data, rows)
    return Sample(rows, whole and len(chosen) == len(files), data, len(files), reading, spread=sampled is not None)


def _require(data: str, rows: pa.Table) -> None:
    if rows.num_columns > MOST_COLUMNS:
        raise UserError(f"{data}: {too_many_columns(rows.num_columns)}")
    if rows.num_columns < 2:
        raise UserError(
            f"{data} has one column, {join_names(rows.column_names)}: a table needs the target and at least one other "
            "column. Is its separator none of , ; | and tab? The first line must name the columns: remove a title "
            "above it."
        )
    if rows.num_rows < 2:
        raise UserError(f"{data} has {rows.num_rows} row{'s' * (rows.num_rows != 1)}: too few to train and test.")


def _fields(file: File, scratch: Path) -> tuple[list[Field] | None, Reading]:
    """Returns the columns of a file and its format. The columns of JSON lines are None: only the rows name them."""
    with _open(file, scratch) as stream:
        kind = data_files.KINDS[stream.suffix]
        if kind == "parquet":
            names = pyarrow.parquet.read_schema(stream.path)
            check_names(stream.name, names.names)
            return [Field(field.name, parquet.plain_type(field.type), nullable=True) for field in names], Reading()
        if kind == "json":
            return None, Reading()
        names, reading = _header(stream)
        check_names(f"{stream.name}, line 1", names)
    nameless = [name for name in names if not name.strip()]
    known = [name for name in names if name.strip() or len(nameless) == 1]
    return [Field(name, pa.string(), nullable=True) for name in known], reading


def _header(stream: OpenedFile) -> tuple[Sequence[str], Reading]:
    """Returns the names of the columns and the format of the file. The separator is the one with the most columns."""
    first = next(blocks := stream.blocks(), b"")
    encoding = _guess_encoding(first)
    _, texts = decode_text(chain([first], blocks), stream.name, encoding)
    head = next(texts, b"")
    if separator_line := SEPARATOR_LINE.match(head):
        head = head[separator_line.end() :]
    if not head.strip():
        raise UserError(f"{stream.name} is empty: its first line must name the columns.")
    end, head = find_header_end(stream.name, head, texts, '"')
    usual = "\t" if stream.suffix.startswith(".tsv") else ","
    columns = {mark: _split_header(stream.name, head[:end], mark, usual) for mark in (usual, *records.SEPARATORS)}
    separator = max(columns, key=lambda mark: len(columns[mark]))
    if not columns[separator]:
        read_header(stream.name, head[:end], (), Reading(), usual)  # raises the reason
    if len(columns[separator]) > MOST_COLUMNS:
        raise UserError(f"{stream.name}: {too_many_columns(len(columns[separator]))}")
    return columns[separator], Reading(separator="" if separator == usual else separator, encoding=encoding)


def _guess_encoding(head: bytes) -> str:
    """Returns "windows-1252" for text that is not UTF-8 and has no byte order mark, else ""."""
    if any(head.startswith(mark) for mark in file_bytes.MARKS) or b"\0" in head:
        return ""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "windows-1252"
    return ""


def _split_header(name: str, text: bytes, separator: str, usual: str) -> tuple[str, ...]:
    try:
        return read_header(name, text, (), Reading(separator=separator), usual)[0]
    except UserError as error:
        if "twice" in str(error) and separator == usual:
            raise
        return ()


def _first(
    files: Sequence[File], fields: Sequence[Field] | None, reading: Reading, scratch: Path
) -> tuple[pa.Table, bool]:
    """Returns the first rows of the files, and whether these are all rows."""
    if fields is None:
        return _objects(files[0], scratch)
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    with closing(cast(Generator[pa.RecordBatch], Files(files, fields, reading, scratch).batches())) as stream:
        for batch in stream:
            batches.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > MOST_ROWS or size > 4 * MOST_BYTES:
                break
        else:
            size = 0
    table = pa.Table.from_batches(batches).select([field.name for field in fields])
    return table, size == 0


def _spread(files: Sequence[File], fields: Sequence[Field] | None, reading: Reading, scratch: Path) -> pa.Table | None:
    """Returns rows from all parts of the files, or None if the parts cannot be read separately."""
    try:
        pieces, rows = spread_sample.write_pieces(files, MOST_ROWS, scratch)
        if fields is None:
            tables = [_objects(piece, scratch)[0].slice(0, rows) for piece in pieces]
            return pa.concat_tables(tables, promote_options="permissive")
        batches = Files(pieces, fields, reading, scratch).batches()
        kept = [batch.filter(pc.less(batch[RECORD], rows)) for batch in batches]
        return pa.Table.from_batches(kept).select([field.name for field in fields])
    except (spread_sample.NotSpread, UserError, pa.ArrowException):
        return None


def _objects(file: File, scratch: Path) -> tuple[pa.Table, bool]:
    """Returns the first rows of a file of JSON lines, and whether these are all rows."""
    with _open(file, scratch) as stream:
        _, texts = decode_text(stream.blocks(), stream.name, "")
        head = b""
        for text in texts:
            head += text
            if len(head) > MOST_BYTES:
                break
    whole = len(head) <= MOST_BYTES
    head = head if whole else head[: head.rfind(b"\n") + 1]
    require_lines(stream.name, head)
    if not head.strip():
        raise UserError(f"{stream.name} is empty: each line must hold one JSON object with the columns.")
    options = pyarrow.json.ReadOptions(use_threads=False, block_size=len(head) + 1)
    try:
        return pyarrow.json.read_json(pa.BufferReader(head), options), whole
    except pa.ArrowInvalid as error:
        raise UserError(f"{stream.name}{_describe_error(head, str(error), whole)}") from None


def _describe_error(head: bytes, message: str, whole: bool) -> str:
    """Returns the line and the mistake for an error of Arrow's JSON reader, which counts records from 0."""
    match = re.fullmatch(r"(?:JSON parse error: )?(.*?)\.? in row (\d+)", message, re.DOTALL)
    if not match:
        return f": {message[:200]}. Each line must hold one JSON object with the columns."
    layout, lines = JsonLines(), head.split(b"\n")
    line = layout.line(head, int(match[2]))
    mistake = layout.mistake(lines[line], match[1], whole and line == len(lines) - 1, ()).text.rstrip(".")
    return f", line {line + 1}{mistake}. Each line must hold one JSON object, and each column values of one type."


@contextmanager
def _open(file: File, scratch: Path) -> Iterator[OpenedFile]:
    with closing(file_bytes.stage_files([file], scratch)) as local:
        _, chosen, path = next(local)
        with open_local(chosen, path, data_files.suffix(storage.plain(file.path))) as stream:
            yield stream
