"""Feeds a rank its microbatches: a thread gathers blocks of many steps, one block ahead of the loop."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from vgp.train.loop.sample_order import Plan, blocks

if TYPE_CHECKING:
    from vgp.data.rows import Rows

#: Size of a block, large enough that Python's overhead in a gather is negligible.
_BLOCK_BYTES = 16 << 20
_BLOCK_STEPS = 256


def tensors(columns: dict[str, np.ndarray], device: torch.device) -> dict[str, Tensor]:
    """Moves the columns to the device as tensors; on the CPU without a copy."""
    result = {name: torch.from_numpy(values) for name, values in columns.items()}
    if device.type == "cpu":
        return result
    return {name: value.pin_memory().to(device, non_blocking=True) for name, value in result.items()}


def microbatches(
    rows: "Rows", plan: Plan, assigned: range, first_step: int, device: torch.device
) -> Iterator[dict[str, Tensor]]:
    """Yields the assigned microbatches of each step, from `first_step` to the last, in order."""
    sizes = [stop - start for start, stop in map(plan.span, assigned)]
    width = sum(values[:1].nbytes for values in rows.columns.values())
    length = max(1, min(_BLOCK_STEPS, _BLOCK_BYTES // max(1, width * sum(sizes))))
    copying = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def gather(first: int, last: int) -> list[dict[str, Tensor]]:
        with torch.cuda.stream(copying):
            columns = tensors(rows.take(plan.rows(first, last, assigned)), device)
        if copying:
            copying.synchronize()  # waits in this thread, while the loop's kernels run
        return cut(columns, sizes * (last - first))

    def wait_for(block: "Future[list[dict[str, Tensor]]]") -> list[dict[str, Tensor]]:
        batches = block.result()
        for value in batches[0].values() if copying else ():  # keeps the memory until the loop's kernels have ended
            value.record_stream(torch.cuda.current_stream(device))
        return batches

    with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
        ahead = None
        for block in blocks(first_step, plan.steps, length):
            following = pool.submit(gather, *block)
            if ahead is not None:
                yield from wait_for(ahead)
            ahead = following
        if ahead is not None:
            yield from wait_for(ahead)


def cut(columns: dict[str, Tensor], sizes: list[int]) -> list[dict[str, Tensor]]:
    """Splits the columns into a dictionary of views for each size."""
    parts = [torch.split(values, sizes) for values in columns.values()]
    return [dict(zip(columns, views, strict=True)) for views in zip(*parts, strict=True)]


def held_out(rows: "Rows", size: int, count: int) -> list[np.ndarray]:
    """Returns row numbers of at most `count` batches of at most `size` rows, spread evenly over a split."""
    numbers = np.linspace(0, len(rows) - 1, min(len(rows), size * count)).astype(np.int64)
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]
