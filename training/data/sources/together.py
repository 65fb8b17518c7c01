"""Blocks of records as typed rows: those of many small files in one go, or one by one where something is wrong."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from training.data.schema import Field
from training.data.sources import opening
from training.data.sources.blocks import Block
from training.data.sources.mistakes import Mistake

Result = TypeVar("Result")


@dataclass(frozen=True)
class Rows:
    """Rows of one file or several: of each its position, and how many."""

    table: pa.Table
    runs: tuple[tuple[int, int], ...]


def grouped(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Blocks that follow each other and can be read together."""
    group: list[Block] = []
    size = 0
    for block in blocks:
        if group and (size + len(block.data) > opening.BLOCK_BYTES or block.layout != group[0].layout):
            yield group
            group, size = [], 0
        group.append(block)
        size += len(block.data)
    if group:
        yield group


def read(group: Sequence[Block], fields: Sequence[Field]) -> list[Rows]:
    """The rows of blocks of one layout. Raises Mistake."""
    if len(group) > 1 and (joined := _joined(group, fields)):
        return [joined]
    parts: list[Rows] = []
    for block in group:
        before = sum(count for part in parts for file, count in part.runs if file == block.file)
        parts.append(_single(block, fields, before))
    return parts


def _joined(group: Sequence[Block], fields: Sequence[Field]) -> Rows | None:
    """None if something is wrong, or it cannot be told which row is whose."""
    layout = group[0].layout
    texts = [block.data if block.data.endswith(b"\n") else block.data + b"\n" for block in group]
    counts = [layout.count(text) for text in texts]
    try:
        table = layout.read(b"".join(texts), fields)
        check_present(table, fields)
    except (Mistake, pa.ArrowInvalid):
        return None
    if sum(counts) != table.num_rows or any(b"\r" in text and b"\r" in text.replace(b"\r\n", b"") for text in texts):
        return None
    return Rows(table, tuple(zip((block.file for block in group), counts, strict=True)))


def _single(block: Block, fields: Sequence[Field], before: int) -> Rows:
    try:
        table = block.layout.read(block.data, fields) if block.data.strip(b"\r\n") else schema(fields).empty_table()
        check_present(table, fields)
    except pa.ArrowInvalid as error:
        raise block.layout.mistake(block.data, str(error), block.last).after(before, block.file) from None
    except Mistake as mistake:
        raise mistake.after(before, block.file) from None
    return Rows(table, ((block.file, table.num_rows),))


def schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([(field.name, field.type) for field in fields])


def check_present(table: pa.Table, fields: Sequence[Field]) -> None:
    """Raises Mistake for the first value that is missing where the schema says that none is."""
    for field in fields:
        if field.nullable:
            continue
        column = table[field.name]
        text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        record = int(pc.index(pc.equal(column, ""), True).as_py()) if text else _first_null(column)
        if record >= 0:
            raise Mistake(record, f": column {field.name} is empty, and the schema says that it never is.")


def _first_null(column: pa.ChunkedArray) -> int:
    return int(pc.index(pc.is_null(column), True).as_py()) if column.null_count else -1


def in_order(tasks: Iterator[Callable[[], Result]], threads: int) -> Iterator[Result]:
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
    if failure:
        raise failure
