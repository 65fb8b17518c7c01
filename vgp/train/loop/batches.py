"""Feeds a rank its microbatches: many steps are gathered at once, in a thread, one block ahead of the loop."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from vgp.train.loop.order import Plan, blocks

if TYPE_CHECKING:
    from vgp.data.rows import Rows

#: A block holds about this much: large enough that Python's part of a gather vanishes.
_BLOCK_BYTES = 16 << 20
_BLOCK_STEPS = 256


def tensors(columns: dict[str, np.ndarray], device: torch.device) -> dict[str, Tensor]:
    """The columns on the device; on the CPU without a copy."""
    result = {name: torch.from_numpy(values) for name, values in columns.items()}
    if device.type == "cpu":
        return result
    return {name: value.pin_memory().to(device, non_blocking=True) for name, value in result.items()}


def microbatches(
    rows: "Rows", plan: Plan, assigned: range, first_step: int, device: torch.device
) -> Iterator[dict[str, Tensor]]:
    """The assigned microbatches of step `first_step`, then of the next..., to the last step."""
    sizes = [stop - start for start, stop in map(plan.span, assigned)]
    width = sum(values[:1].nbytes for values in rows.columns.values())
    length = max(1, min(_BLOCK_STEPS, _BLOCK_BYTES // max(1, width * sum(sizes))))
    copying = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def gather(first: int, last: int) -> list[dict[str, Tensor]]:
        with torch.cuda.stream(copying):
            columns = tensors(rows.take(plan.rows(first, last, assigned)), device)
        if copying:
            copying.synchronize()  # this thread waits, beside the kernels of the loop
        return cut(columns, sizes * (last - first))

    def taken(block: "Future[list[dict[str, Tensor]]]") -> list[dict[str, Tensor]]:
        batches = block.result()
        for value in batches[0].values() if copying else ():  # memory that the loop uses until its kernels are done
            value.record_stream(torch.cuda.current_stream(device))
        return batches

    with ThreadPoolExecutor(1, thread_name_prefix="batches") as pool:
        ahead = None
        for block in blocks(first_step, plan.steps, length):
            following = pool.submit(gather, *block)
            if ahead is not None:
                yield from taken(ahead)
            ahead = following
        if ahead is not None:
            yield from taken(ahead)


def cut(columns: dict[str, Tensor], sizes: list[int]) -> list[dict[str, Tensor]]:
    """One dictionary of views per size."""
    parts = [torch.split(values, sizes) for values in columns.values()]
    return [dict(zip(columns, views, strict=True)) for views in zip(*parts, strict=True)]


def held_out(rows: "Rows", size: int, count: int) -> list[np.ndarray]:
    """Row numbers of at most `count` batches of at most `size`, spread evenly over a split: the same every time."""
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), size * count)).astype(np.int64)
    return [chosen[start : start + size] for start in range(0, len(chosen), size)]
