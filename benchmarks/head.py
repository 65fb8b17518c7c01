"""How much memory and time do a language model's head and loss take, forward and backward, against the textbook form?

    python -m benchmarks.head --tokens 4096 --vocab 16384 --width 256

Plain: all logits, `F.cross_entropy` in float32, autograd. Ours: `vgp.networks.head`, with chunks of several sizes.
Memory is the peak of PyTorch's allocator above its start. Gradients are compared before anything is timed. This
measures a CPU in float32; on a GPU the comparison can differ.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F
from torch.profiler import profile

from benchmarks import machine
from vgp.networks import head

CHUNKS_MIB = (256, 64, 16)


def plain(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    logits = F.linear(x, weight).flatten(0, 1)
    return F.cross_entropy(logits.float(), targets.flatten(), ignore_index=head.NONE, reduction="sum")


def chunked(mebibytes: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def loss(x: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
        head.CHUNK_BYTES = mebibytes << 20
        total: Tensor = head.TiedHead()(x, weight, targets, summed=True)
        return total

    return loss


def gradients(loss: Callable[[Tensor, Tensor, Tensor], Tensor], given: tuple[Tensor, Tensor, Tensor]) -> list[Tensor]:
    x, weight, targets = given
    x.grad = weight.grad = None
    loss(x, weight, targets).backward()
    assert x.grad is not None and weight.grad is not None
    return [x.grad, weight.grad]


def peak_bytes(loss: Callable[[Tensor, Tensor, Tensor], Tensor], given: tuple[Tensor, Tensor, Tensor]) -> int:
    with profile(profile_memory=True) as recorded:
        gradients(loss, given)
    assert recorded.profiler
    held = most = 0
    for event in recorded.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--vocab", type=int, default=16_384)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    x = torch.randn(1, given.tokens, given.width).requires_grad_()
    weight = (torch.randn(given.vocab, given.width) / given.width**0.5).requires_grad_()
    values = x, weight, torch.randint(0, given.vocab, (1, given.tokens))
    ways = {"plain": plain, **{f"ours, chunks of {size} MiB": chunked(size) for size in CHUNKS_MIB}}
    expected = gradients(plain, values)
    for loss in ways.values():
        for ours, theirs in zip(gradients(loss, values), expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(given.runs):
        for name, loss in ways.items():
            began = time.perf_counter()
            gradients(loss, values)
            times[name].append(time.perf_counter() - began)
    table = Table(
        "", "peak MB", "ratio", "s", "ratio", title=f"{given.tokens:,} x {given.vocab:,}; {machine.describe()}"
    )
    peaks = {name: peak_bytes(loss, values) for name, loss in ways.items()}
    for name in ways:
        ratio = statistics.median(a / b for a, b in zip(times[name], times["plain"], strict=True))
        shown = f"{peaks[name] / 1e6:,.0f}", f"{peaks[name] / peaks['plain']:.2f}"
        table.add_row(name, *shown, f"{statistics.median(times[name]):.2f}", f"{ratio:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
