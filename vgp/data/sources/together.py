"""Blocks of records as typed rows: those of many small files in one go, or one by one where something is wrong."""

import re
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from vgp.data.schema import Field
from vgp.data.sources import opening, parquet
from vgp.data.sources.blocks import Block
from vgp.data.sources.parquet import Stored
from vgp.data.sources.reading import Mistake
from vgp.data.sources.values import check, held

Result = TypeVar("Result")


@dataclass(frozen=True)
class Rows:
    """Rows of one file or several: of each its position, and how many."""

    table: pa.Table
    runs: tuple[tuple[int, int], ...]


Task = Callable[[], list[Rows]]
Part = Block | Stored


def tasks(parts: Iterator[Part], fields: Sequence[Field]) -> Generator[Task]:
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
        table = schema(fields).empty_table()
    else:
        try:
            table = part.layout.read(part.data, fields)
        except pa.ArrowInvalid as error:
            raise part.layout.mistake(part.data, str(error), part.last, fields) from None
    check(table, fields)
    return table


def schema(fields: Sequence[Field]) -> pa.Schema:
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
