"""Blocks of records as typed rows: those of many small files in one go, or one by one where something is wrong."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow as pa

from training.data.schema import Field
from training.data.sources import opening
from training.data.sources.blocks import Block
from training.data.sources.mistakes import Mistake
from training.data.sources.values import check_present

Result = TypeVar("Result")


@dataclass(frozen=True)
class Rows:
    """Rows of one file or several: of each its position, and how many."""

    table: pa.Table
    runs: tuple[tuple[int, int], ...]


Task = Callable[[], list[Rows]]


def tasks(parts: Iterator[Block | Task], fields: Sequence[Field]) -> Iterator[Task]:
    """What is to be done for all parts: blocks that follow each other, and can be read together, are one task."""
    group: list[Block] = []
    size = 0
    failure: Exception | None = None
    try:
        for part in parts:
            size += len(part.data) if isinstance(part, Block) else 0
            if group and not (
                isinstance(part, Block) and size <= opening.BLOCK_BYTES and part.layout == group[0].layout
            ):
                yield partial(read, group, fields)
                group, size = [], len(part.data) if isinstance(part, Block) else 0
            if isinstance(part, Block):
                group.append(part)
            else:
                yield part
    except Exception as error:  # those before it may have one of their own
        failure = error
    if group:
        yield partial(read, group, fields)
    if failure:
        raise failure


def converted(file: int, convert: Callable[[], pa.Table], fields: Sequence[Field]) -> list[Rows]:
    """The rows of a part of one file. Raises Mistake."""
    try:
        table = convert()
        check_present(table, fields)
    except Mistake as mistake:
        raise mistake.after(0, file) from None
    return [Rows(table, ((file, table.num_rows),))]


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
        raise block.layout.mistake(block.data, str(error), block.last, fields).after(before, block.file) from None
    except Mistake as mistake:
        raise mistake.after(before, block.file) from None
    return Rows(table, ((block.file, table.num_rows),))


def schema(fields: Sequence[Field]) -> pa.Schema:
    return pa.schema([(field.name, field.type) for field in fields])


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
