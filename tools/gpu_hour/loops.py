"""The two loops that the GPU hour compares: this library's training, and a plain loop as an expert writes it.

Both train one task on one dataset in this process, from given weights if there are any. They report their weights,
their loss at every step, and for timed runs the steps per second between two steps and a trace of some later ones.
"""

import gc
import gzip
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tools.gpu_hour.tasks import GAP, STOPWATCH, TRACED, Drawn
from vgp.data import tasks
from vgp.data.rows import open_rows
from vgp.protocol import manifest
from vgp.train import fit
from vgp.train.train_config import TrainConfig

#: The types of autocast by the name of a precision.
HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}
#: Calls in which a loop waits for the device; the stopwatch itself calls cudaDeviceSynchronize.
WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize")


@dataclass
class Trained:
    """The result of a run: weights and buffers by name, the loss of each step, and figures."""

    state: dict[str, Tensor]
    losses: list[float]
    figures: dict[str, Any] = field(default_factory=dict)


@contextmanager
def become_rank() -> Iterator[None]:
    """Makes this process the only rank of a training, as torchrun would, so that many runs import PyTorch once."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    names = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    os.environ |= {**names, "MASTER_PORT": str(port)}
    try:
        yield
    finally:
        for name in (*names, "MASTER_PORT"):
            del os.environ[name]


def train_ours(
    data: Path, folder: Path, *, nproc: int = 1, timed: tuple[int, int] = (0, 0), **settings: Any
) -> Trained:
    """Trains with the library's `train`; removes the folder afterwards.

    Args:
        nproc: Processes; one runs in this process.
        timed: The steps between which the speed is measured, in a run of `GAP + TRACED` more steps; (0, 0) = none.
        settings: Fields of the training configuration.
    """
    dataset = manifest.load(data)
    STOPWATCH.start(*timed)
    if timed[1]:
        settings["profile_steps"] = f"{timed[1] + GAP + 1}-{timed[1] + GAP + TRACED}"
    config = TrainConfig(task=dataset.task, options=dataset.options, **settings)
    try:
        with become_rank() if nproc == 1 else nullcontext():
            figures = fit.train(config, data=data, model=folder / "model", checkpoints=folder / "runs", nproc=nproc)
        if timed[1]:
            (trace,) = folder.rglob("*.json.gz")
            return Trained({}, [], figures | _measure(json.loads(gzip.decompress(trace.read_bytes()))))
        card = json.loads((folder / "model" / "model.json").read_text())
        return Trained(load_file(folder / "model" / "model.safetensors"), [p["loss"] for p in card["history"]], figures)
    finally:
        torch.use_deterministic_algorithms(False)
        torch._dynamo.reset()
        shutil.rmtree(folder, ignore_errors=True)


def train_plain(
    data: Path, *, rows: int, steps: int = 0, precision: str = "fp32", mode: str = "eager", learning_rate: float = 1e-3,
    clip_norm: float = 1.0, weights: Mapping[str, Tensor] | None = None, timed: tuple[int, int] = (0, 0),
) -> Trained:  # fmt: skip
    """Trains with a plain loop: rows on the device, autocast, the task's fused optimizer, `torch.compile`.

    Args:
        steps: Steps of a run that is not timed.
        mode: `eager`, `compiled`, or `graphs` (compiled, with CUDA graphs).
        rows: Rows of a batch; if they are all rows, every step has them in their order.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dataset = manifest.load(data)
    task = tasks.load(dataset.task, dataset.options)
    assert isinstance(task, Drawn)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision in ("tf32", *HALF)
    torch.backends.cudnn.benchmark = bool(timed[1])
    torch.manual_seed(0)
    module = task.model(dataset).to(device)
    if weights is not None:
        module.load_state_dict(weights)
    optimizer = task.optimizer(module, learning_rate, 0.01)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "fp16")
    loss_of = _compile(lambda batch: task.plain_loss(module, batch), mode)
    autocast = torch.autocast(device.type, HALF[precision]) if precision in HALF else nullcontext()
    next_batch = _make_reader(data, rows, device)
    skipped, losses = 0, []

    def step() -> None:
        nonlocal skipped
        if mode == "graphs":
            torch.compiler.cudagraph_mark_step_begin()
        with autocast:
            loss = loss_of(next_batch())
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(module.parameters(), clip_norm)
        scale = scaler.get_scale() if scaler.is_enabled() else 0.0
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.is_enabled() and scaler.get_scale() < scale
        optimizer.zero_grad()
        if not timed[1]:
            losses.append(loss.detach().clone())

    STOPWATCH.start(*timed)
    for _ in range(timed[1] + GAP if timed[1] else steps):
        step()
    figures = _measure(_trace(step)) if timed[1] else {"skipped_steps": skipped}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch._dynamo.reset()
    state = {} if timed[1] else {name: value.detach().cpu().clone() for name, value in module.state_dict().items()}
    return Trained(state, [float(loss) for loss in losses], figures)


def free_memory() -> None:
    """Returns the memory of earlier runs to the GPU, and forgets their peak."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def save_weights(state: Mapping[str, Tensor], path: Path) -> str:
    """Writes weights for a warm start; returns the path."""
    save_file(dict(state), path)
    return str(path)


def _compile(loss: Callable[[Any], Tensor], mode: str) -> Callable[[Any], Tensor]:
    if mode == "eager":
        return loss
    compiled: Callable[[Any], Tensor] = torch.compile(loss, mode="reduce-overhead" if mode == "graphs" else None)
    return compiled


def _make_reader(data: Path, rows: int, device: torch.device) -> Callable[[], dict[str, Tensor]]:
    """Returns a function for the next batch: a slice of rows on the device, shuffled once."""
    columns = {name: torch.from_numpy(v.astype("int32") if v.dtype == "uint16" else v).to(device)
               for name, v in open_rows(data, "train").columns.items()}  # fmt: skip
    count, place = len(next(iter(columns.values()))), 0
    if rows < count:
        order = torch.randperm(count, device=device)
        columns = {name: values[order] for name, values in columns.items()}

    def take() -> dict[str, Tensor]:
        nonlocal place
        first = 0 if place + rows > count else place
        place = first + rows
        return {name: values[first:place] for name, values in columns.items()}

    return take


def _trace(step: Callable[[], None]) -> dict[str, Any]:
    """Returns the profiler's trace of some steps."""
    kinds = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[kinds.CPU, *([kinds.CUDA] if torch.cuda.is_available() else [])]) as trace:
        for number in range(TRACED):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                step()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        trace.export_chrome_trace(file.name)
        return json.loads(Path(file.name).read_text())


def _measure(trace: Mapping[str, Any]) -> dict[str, float]:
    """Returns the speed by the stopwatch, and the shares of a step by the trace."""
    return {"steps_per_s": STOPWATCH.steps_per_s, **split_step(trace["traceEvents"])}


def split_step(events: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Splits the mean traced step into milliseconds: kernels, copies without kernels, waits, and the rest.

    Args:
        events: Of a trace of PyTorch's profiler. Without kernels, operators of the CPU take their place.
    """
    timed = [event for event in events if event.get("ph") == "X" and "dur" in event]
    steps = [event for event in timed if str(event["name"]).startswith("ProfilerStep#")
             and event.get("cat") == "user_annotation"]  # fmt: skip
    begin, end = min(e["ts"] for e in steps), max(e["ts"] + e["dur"] for e in steps)
    kernels = [e for e in timed if e.get("cat") == "kernel"] or [e for e in timed if e.get("cat") == "cpu_op"]
    copies = [e for e in timed if e.get("cat") in ("gpu_memcpy", "gpu_memset")]
    waits = [e for e in timed if e.get("cat") == "cuda_runtime" and e["name"] in WAITS]
    busy, either = _sum_covered(kernels, begin, end), _sum_covered([*kernels, *copies], begin, end)
    per_step = 1000 * len(steps)
    return {"step_ms": (end - begin) / per_step, "busy_ms": busy / per_step, "copy_ms": (either - busy) / per_step,
            "wait_ms": _sum_covered(waits, begin, end) / per_step, "idle_ms": (end - begin - either) / per_step,
            "busy_share": busy / (end - begin)}  # fmt: skip


def _sum_covered(events: Iterable[Mapping[str, Any]], begin: float, end: float) -> float:
    """Returns the microseconds between `begin` and `end` in which at least one event runs."""
    covered, reached = 0.0, begin
    for start, stop in sorted((e["ts"], min(e["ts"] + e["dur"], end)) for e in events):
        covered += max(0.0, stop - max(start, reached))
        reached = max(reached, stop)
    return covered
