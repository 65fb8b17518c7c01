"""Slice 3: how long a checkpoint stops training, when it is durable, the host memory that it takes, and a resume."""

import dataclasses
import resource
import shutil
import threading
from pathlib import Path

from benchmarks.goodput import Folder, measure_parts
from tools.gpu_hour import machine, training_process
from tools.gpu_hour.parts import Place
from tools.gpu_hour.tasks import write

#: Bytes on the disk for each parameter: three checkpoints of weights and two moments, and one that is being written.
DISK_BYTES = 4 * 12
#: The share of training that one save in five minutes may cost.
MOST_SHARE, EVERY_S = 0.02, 300.0


def measure_saves(place: Place) -> None:
    """Saves, preempts and resumes a language model of 1 B parameters, as `benchmarks.goodput` does; small on a CPU.

    Raises:
        Refused: the disk has no room for the checkpoints of any model.
    """
    depth, rows = choose_depth(place.depth, shutil.disk_usage(place.folder).free), 4
    options = {"depth": depth, "sequence_length": 1024}
    if place.on_cpu:
        options = {"depth": 1, "sequence_length": 16, "tokens": 300}
    data = place.folder / "data"
    write("tools.gpu_hour.models:Tokens", options, 64 * rows, data)
    settings = {"epochs": 1e5, "global_batch_size": rows, "checkpoint_every_s": 0.5 if place.on_cpu else 10,
                "compile": False}  # fmt: skip
    job = Folder(place.folder / "runs", data, 1, [])
    job.words = training_process.make_command(data, job.path, settings)
    with TakenMemory() as memory:
        parts = measure_parts(job)
    share = parts.cost_s / EVERY_S
    place.record("checkpoint", share <= MOST_SHARE, cost_s=parts.cost_s, durable_s=parts.durable_s,
                 share_at_one_in_five_minutes=share, allowed=MOST_SHARE, **options)  # fmt: skip
    place.record("resume", **{f"resume_{name}": value for name, value in dataclasses.asdict(parts).items()
                              if name in ("start_s", "stop_s")})  # fmt: skip
    place.record("host memory", taken_bytes=memory.taken,
                 largest_process_bytes=1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)  # fmt: skip


def choose_depth(largest: int, free_bytes: int) -> int:
    """Returns the depth of the largest language model whose checkpoints fit the disk.

    Raises:
        Refused: no model's checkpoints do.
    """
    for depth in (depth for depth in machine.DEPTHS if depth <= largest):
        if DISK_BYTES * machine.count_parameters(depth) <= free_bytes:
            return depth
    raise machine.Refused(
        f"{free_bytes / machine.GIB:.1f} GiB of disk are free, and the checkpoints of the smallest model need "
        f"{DISK_BYTES * machine.count_parameters(min(machine.DEPTHS)) / machine.GIB:.1f}: set TMPDIR to a larger disk."
    )


class TakenMemory:
    """The largest amount of this machine's memory that programs took while the block ran (Linux)."""

    def __enter__(self) -> "TakenMemory":
        self.ended, self.before, self.taken = threading.Event(), read_available_bytes(), 0
        self.thread = threading.Thread(target=self._watch, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def _watch(self) -> None:
        while not self.ended.wait(0.2):
            self.taken = max(self.taken, self.before - read_available_bytes())


def read_available_bytes() -> int:
    """Returns the memory that programs can still take, by /proc/meminfo."""
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return 1024 * int(lines["MemAvailable"].split()[0])
