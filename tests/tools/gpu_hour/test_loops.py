"""The figures of both loops: a step by its trace, and errors that a wrong loop exceeds."""

from pathlib import Path

import pytest
import torch

from tools.gpu_hour import correct, loops
from tools.gpu_hour.older_torch import _rename_argument, add_missing_names
from tools.gpu_hour.tasks import write


def event(category: str, name: str, ts: float, dur: float) -> dict:
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur}


def test_a_step_is_split_into_kernels_copies_waits_and_rest() -> None:
    trace = [
        event("user_annotation", "ProfilerStep#7", 1000, 2000), event("user_annotation", "ProfilerStep#8", 3000, 2000),
        event("kernel", "gemm", 500, 1000),  # 500 before the first step
        event("kernel", "gemm", 1400, 600), event("gpu_memcpy", "HtoD", 1900, 300),
        event("kernel", "norm", 4800, 900),  # 700 after the last step
        event("cuda_runtime", "cudaStreamSynchronize", 3000, 400),
        event("cuda_runtime", "cudaDeviceSynchronize", 0, 9000),
        event("cpu_op", "aten::mm", 1000, 4000), {"ph": "M", "name": "process_name"},
    ]  # fmt: skip
    assert loops.split_step(trace) == pytest.approx(
        {"step_ms": 2, "busy_ms": 0.6, "copy_ms": 0.1, "wait_ms": 0.2, "idle_ms": 1.3, "busy_share": 0.3}
    )


def test_a_trace_without_kernels_counts_the_operators_of_the_cpu() -> None:
    trace = [event("user_annotation", "ProfilerStep#0", 0, 1000), event("cpu_op", "aten::mm", 200, 250)]
    assert loops.split_step(trace)["busy_share"] == 0.25


def test_another_learning_rate_and_a_rounded_raw_column_exceed_the_allowed_error(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(correct.MIXED, {}, 256, data)
    start = loops.train_plain(data, steps=0, rows=256).state
    plan = {"steps": 4, "rows": 256, "weights": start}
    exact = loops.train_plain(data, learning_rate=0.05, **plan)
    assert correct.find_error(exact, exact, start) == 0
    half = correct.find_error(loops.train_plain(data, learning_rate=0.05, precision="bf16", **plan), exact, start)
    other = correct.find_error(loops.train_plain(data, learning_rate=0.052, **plan), exact, start)
    assert half < 0.01 and other > 2 * half + correct.FLOOR
    assert len(exact.losses) == 4 and exact.losses[-1] < exact.losses[0]


def test_an_older_pytorch_gets_the_names_that_training_uses() -> None:
    assert add_missing_names() == []  # the pinned PyTorch has them all
    assert torch.distributed.all_gather_single

    class Older:
        def __init__(self, module: int, broadcast_buffers: bool = True):
            self.built = module, broadcast_buffers

    _rename_argument(Older, "forward_sync_buffers", "broadcast_buffers")
    assert Older(1, forward_sync_buffers=False).built == (1, False)
