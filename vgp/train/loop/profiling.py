"""Writes profiler traces and GPU memory snapshots beside the checkpoints.

A run traces the steps in `profile_steps`, and on request: rank 0 looks for a file or object `profile.request` in the
checkpoint folder, and all ranks start at the step that their next meeting agrees on. A trace does not change the
results. https://docs.pytorch.org/docs/stable/profiler.html

If a GPU runs out of memory, PyTorch writes a snapshot for its own viewer, which only reads pickles; it parses them in
the browser without running their code. This library never opens a snapshot. Not verified on a GPU.
https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from vgp.base.storage import files, objects, storage
from vgp.base.text.printable import report
from vgp.train import profile_settings
from vgp.train.loop import precision
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import Rank
from vgp.train.train_config import TrainConfig

REQUEST = "profile.request"
FOLDER = "profile"
#: Seconds between checks for a request, on a disk and in a bucket.
_LOOK_EVERY_S, _ASK_EVERY_S = 1.0, 10.0
#: Number of operations in the log, and the length of their names.
_OPERATIONS, _NAME = 10, 60


class Profiler:
    """The traces of one rank."""

    def __init__(self, request: TrainingRequest, rank: Rank):
        self.request, self.rank = request, rank
        selected = profile_settings.parse_ranks(request.config.profile_ranks)
        self.traces = selected is None or rank.rank in selected
        #: Whether this rank logs the trace: the first rank that traces.
        self.logs = rank.rank == min(selected or {0})
        #: The steps to trace, numbered from 1.
        self.steps = profile_settings.parse_steps(request.config.profile_steps)
        self.later = range(0)
        self.profiler: torch.profiler.profile | None = None
        self.first = 0
        self.step: torch.profiler.record_function | None = None
        self.threads: list[threading.Thread] = []

    def ask(self, done: int, count: int) -> None:
        """Schedules a trace of `count` steps, after one step to warm the profiler up, unless a trace is running."""
        if self.profiler is None:
            first = min(done + 2, self.request.plan.steps)
            steps = range(first, min(first + count, self.request.plan.steps + 1))
            self.later = self.steps if self.steps and self.steps[0] > steps[-1] + 1 else range(0)
            self.steps = steps

    def begin_step(self, done: int) -> None:
        """Prepares, starts or continues the trace before the step that follows `done` steps."""
        number = done + 1
        if not self.steps or not self.traces or number < self.steps[0] - 1 or number > self.steps[-1]:
            return
        try:
            if self.profiler is None:
                self.profiler = _prepare(self.rank.device)
            if number in self.steps:
                if not self.first:
                    self.profiler.start_trace()
                    self.first = number
                self.step = torch.profiler.record_function(f"ProfilerStep#{number}")  # as torch's schedule names it
                self.step.__enter__()  # type: ignore[no-untyped-call]
        except RuntimeError as error:  # another profiler is running, or the driver forbids it
            self._give_up(error)

    def end_step(self, done: int) -> None:
        """Ends the step's record after `done` steps, and the trace after its last step."""
        if self.step is not None:
            self.step.__exit__(None, None, None)
            self.step = None
        if self.first and done >= self.steps[-1]:
            self.finish(done)

    def finish(self, done: int) -> None:
        """Ends the trace and writes it in the background."""
        profiler, first = self.profiler, self.first
        if profiler is None or not first:
            return
        self.profiler, self.first, self.steps, self.later = None, 0, self.later, range(0)
        try:
            profiler.stop_trace()
        except RuntimeError as error:
            return self._give_up(error)
        thread = threading.Thread(target=self._write, args=(profiler, first, done), name="profile", daemon=True)
        self.threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Waits until all traces are written."""
        for thread in self.threads:
            thread.join()

    def _write(self, profiler: torch.profiler.profile, first: int, last: int) -> None:
        rank = self.rank.rank
        name = f"run{self.request.run:03}-step{first:09}-{last:09}-rank{rank:03}.pt.trace.json.gz"
        target = f"{self.request.checkpoints}/{FOLDER}/{name}"
        try:
            with tempfile.TemporaryDirectory(prefix="profile-") as folder:
                trace = Path(folder, name)
                profiler.export_chrome_trace(str(trace))
                objects.put(trace, target)
            if self.logs:
                self._log(f"profile of steps {first}-{last}: {target}\n  open it at https://ui.perfetto.dev\n"
                          f"{costliest_table(profiler, rank)}")  # fmt: skip
        except (OSError, RuntimeError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self.profiler, self.first, self.steps, self.step = None, 0, range(0), None
        self._log(f"warning: no profile on rank {self.rank.rank}: {type(error).__name__}: {error}")

    def _log(self, text: str) -> None:
        """Logs a line, over the progress line of a terminal."""
        report(("\r\x1b[K" if self.rank.terminal else "") + text)


class Requests:
    """The requests for traces in the checkpoint folder, read by rank 0."""

    def __init__(self, checkpoints: str):
        self.checkpoints = checkpoints
        self.remote = storage.is_remote(checkpoints)
        self.looked_at = -_LOOK_EVERY_S
        #: Requested steps that `take` has not yet returned.
        self.steps = 0
        self.ended = threading.Event()
        if self.remote:
            threading.Thread(target=self._watch, name="profile requests", daemon=True).start()

    def take(self) -> int:
        """Returns the number of requested steps, 0 = none, without waiting for a store."""
        if not self.remote and time.monotonic() - self.looked_at >= _LOOK_EVERY_S:
            self.looked_at = time.monotonic()
            path = Path(self.checkpoints, REQUEST)
            if path.exists():
                self._accept(lambda: files.read(path, most=1 << 10, links=False), path.unlink)
        steps, self.steps = self.steps, 0
        return steps

    def close(self) -> None:
        self.ended.set()

    def _watch(self) -> None:
        folder = objects.Folder(self.checkpoints, deadline_s=_ASK_EVERY_S)
        while not self.ended.wait(_ASK_EVERY_S):
            try:
                has_request = folder.holds(REQUEST)
            except Exception:  # saving checkpoints reports an unreachable store
                continue
            if has_request and not self._accept(lambda: folder.read(REQUEST), lambda: folder.delete(REQUEST)):
                return

    def _accept(self, read: Callable[[], bytes], delete: Callable[[], object]) -> bool:
        """Reads a request and deletes it first, so that a request that crashes the run does not crash its retries."""
        try:
            text = read().decode(errors="replace")
            delete()
        except Exception as error:
            report(f"warning: {self.checkpoints}/{REQUEST} cannot be read and deleted: {error}")
            self.looked_at = float("inf")
            return False
        try:
            self.steps = profile_settings.parse_request(text)
        except ValueError as error:
            report(f"warning: {self.checkpoints}/{REQUEST} was removed: {error}")
        return True


def costliest_table(profiler: torch.profiler.profile, rank: int) -> str:
    """Returns a table of the costliest GPU kernels, or CPU operations without a GPU, by self time."""
    rows = [row for row in profiler.key_averages() if not row.is_user_annotation]
    on_gpu = [row for row in rows if row.device_type == torch.autograd.DeviceType.CUDA]
    times = [(row.self_device_time_total if on_gpu else row.self_cpu_time_total, row) for row in on_gpu or rows]
    total = sum(time for time, _ in times) or 1.0
    times.sort(key=lambda pair: -pair[0])
    head = f"{'kernels of the GPU' if on_gpu else 'operations on the CPU'} of rank {rank}"
    lines = [f"  {head:<{_NAME + 2}}  {'ms':>10}  {'share':>6}  {'calls':>7}"]
    for time_us, row in times[:_OPERATIONS]:
        name = row.key if len(row.key) <= _NAME else row.key[: _NAME - 3] + "..."
        lines.append(f"    {name:<{_NAME}}  {time_us / 1000:>10.2f}  {time_us / total:>6.1%}  {row.count:>7}")
    return "\n".join(lines)


def _prepare(device: torch.device) -> torch.profiler.profile:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # silences a line for each start and stop
    activity = torch.profiler.ProfilerActivity
    gpu_activities = [activity.CUDA] if device.type == "cuda" else []
    profiler = torch.profiler.profile(activities=[activity.CPU, *gpu_activities])
    profiler.prepare_trace()
    return profiler


#: Allocations to keep with their stacks; PyTorch's documentation expects several KB for each.
_MOST_ALLOCATIONS = 20_000


def remember_allocations(request: TrainingRequest, rank: Rank) -> None:
    """Records the stacks of allocations if memory_snapshot=history; call it before the model allocates memory."""
    if request.config.memory_snapshot == "history" and rank.device.type == "cuda":
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=_MOST_ALLOCATIONS)


def memory_fixes(config: TrainConfig, microbatches: int, rows: int, device: torch.device) -> list[str]:
    """Returns the possible changes of settings and machines that reduce the memory of a step.

    Args:
        config: The resolved configuration of the run that ran out of memory.
        microbatches: Number of microbatches of a step, over all ranks.
        rows: Number of rows of a microbatch.
    """
    half = precision.has_bf16(device) or precision.has_fp16(device)
    sharded = config.strategy == "fsdp"
    fixes = {
        f"microbatches={2 * microbatches} or more (now {microbatches} of {rows} rows)": rows > 1,
        "activation_checkpointing=true": config.activation_checkpointing is not True,
        "precision=auto": half and config.precision == "fp32",
        "strategy=fsdp with several GPUs": not sharded and not config.exact,
        "more GPUs": sharded,
        "cpu_offload=true": sharded and not config.cpu_offload,
        "a GPU with more memory": True,
    }
    return [fix for fix, helps in fixes.items() if helps]


def write_memory_snapshot(request: TrainingRequest, rank: Rank, step: int) -> str:
    """Writes a snapshot of the GPU's memory beside the checkpoints; returns a sentence with its path, "" = none.

    Args:
        step: The number of the step that ran out of memory, from 0.
    """
    if request.config.memory_snapshot == "off" or rank.device.type != "cuda":
        return ""
    place = f"{request.checkpoints}/memory/run{request.run:03}-step{step:09}-rank{rank.rank:03}"
    try:
        with tempfile.TemporaryDirectory(prefix="memory-") as folder:
            summary, blocks = Path(folder, "summary.txt"), Path(folder, "blocks.pickle")
            summary.write_text(torch.cuda.memory_summary(rank.device))
            objects.put(summary, f"{place}.txt")
            torch.cuda.memory._dump_snapshot(str(blocks))  # type: ignore[no-untyped-call]
            objects.put(blocks, f"{place}.pickle")
    except (OSError, RuntimeError) as error:
        return f"The memory snapshot could not be written: {error}"
    hint = "" if request.config.memory_snapshot == "history" else " Set memory_snapshot=history to see lines of code."
    return f"Memory summary: {place}.txt. For each block, drop {place}.pickle on https://pytorch.org/memory_viz.{hint}"
