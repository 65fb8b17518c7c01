"""Can a job save everything within the 30 s that Google gives after a Spot notice?

    python -m benchmarks.notice --store disk                   # 1 GB a rank, 2 ranks
    python -m benchmarks.notice --store bucket                 # in a bucket: benchmarks/storage_server.py
    python -m benchmarks.notice --store disk --again           # a second SIGTERM after 2 s changes nothing

Ranks that hold their share of the state, as in training, wait, and the job gets SIGTERM. The rows show the seconds
until each rank has written its share, the manifest is committed, and the job has exited with code 75. Training uses at
most 25 of the 30 s (`vgp.train.processes.launcher`). The lower bound beside it is a plain write of as many bytes, by as
many threads, to the disk with fsync or to the storage server, before each save. Rows are printed when they are known.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import machine
from benchmarks.storage_server import storage_server
from vgp.base.storage.storage import is_remote

PROGRAM = """
import json, sys
from vgp.base.exits import exits
from vgp.train.processes.launch import launch
argument = json.loads(sys.argv[1])
exits(launch)("benchmarks.notice:train", argument, nproc=argument["nproc"])
"""


@contextmanager
def place(store: str) -> Iterator[str]:
    """Yields a folder on the disk, or a bucket of a storage server of this machine."""
    if store == "disk":
        with tempfile.TemporaryDirectory() as folder:
            yield folder
    else:
        with storage_server():
            yield "gs://runs"


def train(argument: dict[str, Any], rank: Any) -> None:
    """Waits for the notice, then saves and stops, as `vgp.train.loop.trainer` does."""
    import torch

    from vgp.base.exits import Preempted
    from vgp.train.checkpoint import training_state
    from vgp.train.checkpoint.checkpoint_store import store_at
    from vgp.train.checkpoint.writer import Writer

    rows = rank.world_size * argument["megabytes"] * 1_000_000 // 4096
    tensors = {"model/weight": torch.empty(rows, 1024, device=rank.device)}
    layout = training_state.layout_of(tensors, rank.world_size)
    share = training_state.share_of(tensors, layout, rank.rank)
    for tensor in share.values():
        tensor.normal_()  # the kernel allocates memory only when it is written
    writer = Writer(store_at(argument["folder"]), rank.another_rendezvous(), rank=rank.rank, keep=3, patience_s=600,
                    world_size=rank.world_size, run=0, launch_id="0" * 8, settings={})  # fmt: skip

    def save(step: int, *, hurried: bool = False) -> None:
        writer.save(step, share, layout, {}, {}, share.keys(), hurried=hurried)
        writer.wait()

    if argument["warm"]:  # a run that has saved before has allocated host memory
        save(1)
    if rank.leads:
        Path(argument["ready"]).touch()
    while not rank.stopping:
        time.sleep(0.01)
    save(2, hurried=True)
    raise Preempted(f"step {writer.durable_step} is saved")


def notice(folder: str, megabytes: int, nproc: int, *, warm: bool, again: bool) -> tuple[float, int, str]:
    """Returns the seconds from SIGTERM to the end, the exit code, and the last output."""
    with tempfile.TemporaryDirectory() as scratch:
        ready = Path(scratch) / "ready"
        argument = {"folder": folder, "megabytes": megabytes, "nproc": nproc, "ready": str(ready), "warm": warm}
        job = subprocess.Popen([sys.executable, "-c", PROGRAM, json.dumps(argument)], stderr=subprocess.PIPE, text=True)
        while not ready.exists():
            if job.poll() is not None:
                raise SystemExit(job.communicate()[1])
            time.sleep(0.05)
        began = time.monotonic()
        job.send_signal(signal.SIGTERM)
        if again:
            time.sleep(2)
            job.send_signal(signal.SIGTERM)
        said = job.communicate()[1]
        return time.monotonic() - began, job.returncode, said.strip().splitlines()[-1]


def plain_write(folder: str, megabytes: int, nproc: int) -> float:
    """Returns the seconds of writing so many bytes to each of so many files or objects."""
    block = memoryview(os.urandom(1 << 20))
    count = megabytes * 1_000_000 // len(block)
    with ThreadPoolExecutor(nproc) as pool:
        write = partial(_put if is_remote(folder) else _write, folder, [block] * count)
        began = time.monotonic()
        list(pool.map(write, range(nproc)))
        return time.monotonic() - began


def _write(folder: str, pieces: list[memoryview], number: int) -> None:
    os.makedirs(folder, exist_ok=True)
    with open(f"{folder}/plain-{number}", "wb", buffering=0) as file:
        for piece in pieces:
            file.write(piece)
        os.fsync(file.fileno())


def _put(folder: str, pieces: list[memoryview], number: int) -> None:
    from vgp.base.storage.objects import Folder

    Folder(folder).create(f"plain-{number}", pieces)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["disk", "bucket"], default="disk")
    parser.add_argument("--megabytes", type=int, default=1000, help="of each rank")
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="a second SIGTERM follows, 2 s after the first")
    given = parser.parse_args()
    print(f"{given.store}, {given.nproc} x {given.megabytes} MB; {machine.describe()}", flush=True)
    with place(given.store) as root:
        for name, warm in (("first save", False), ("later save", True)):
            folder = f"{root}/{name.replace(' ', '-')}"
            bound = plain_write(f"{folder}-plain", given.megabytes, given.nproc)
            print(f"plain write  {bound:5.1f} s", flush=True)
            seconds, code, said = notice(folder, given.megabytes, given.nproc, warm=warm, again=given.again)
            print(f"{name}   {seconds:5.1f} s of 30, {seconds / bound:.1f} x, exit {code}: {said}", flush=True)


if __name__ == "__main__":
    main()
