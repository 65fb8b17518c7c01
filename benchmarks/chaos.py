"""Does training end with equal bits however often it is killed?

    python -m benchmarks.chaos --seed 1 --kills 20 --nproc 2
    python -m benchmarks.chaos --seed 1 --kills 6 --nproc 2,1,4     # another number of processes at every start
    python -m benchmarks.chaos --seed 1 --kills 10 --judged         # with more state than model and optimizer

Trains once undisturbed, then again while SIGKILL hits a random process of the run (the caller, its launcher, or a
rank) at random times drawn from the seed, with a restart after each. Compares model, optimizer state and learning
curve. Useful time is the time of the undisturbed run's steps, divided by the wall time of the disturbed run.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks import machine

EXPECTED_STARTUP_S = 4.0
#: Settings with more state to restore: the average of the weights, the best weights, and the patience.
JUDGED = ("validate_every_steps=7", "best_metric=accuracy", "patience=40", "ema_decay=0.98")


def build_command(data: Path, folder: Path, nproc: int, settings: list[str]) -> list[str]:
    words = [sys.executable, "-m", "vgp.steps", "train", str(data), "--model", str(folder / "model")]
    words += ["--checkpoints", str(folder / "checkpoints"), "--nproc", str(nproc)]
    return [*words, *(word for setting in settings for word in ("--set", setting))]


def start(words: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_one(process: "subprocess.Popen[str]", dice: random.Random) -> str:
    """Kills a random process of the run and returns its kind, or "" if the run has already ended."""
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        victim = dice.choice(family)
        victim.kill()
        return ["caller", "launcher"][family.index(victim)] if family.index(victim) < 2 else "rank"
    except psutil.NoSuchProcess:
        return ""


def find_orphans(folder: Path) -> list[int]:
    """Returns the processes of the run that still live five seconds after it was killed."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        left = [p.pid for p in psutil.process_iter(["cmdline", "environ"]) if _is_of_run(p, folder)]
        if not left:
            return []
        time.sleep(0.1)
    return left


def _is_of_run(process: psutil.Process, folder: Path) -> bool:
    environment = process.info["environ"] or {}
    return environment.get("CHAOS_RUN") == str(folder) and process.pid != psutil.Process().pid


def compute_fingerprint(folder: Path) -> dict[str, str]:
    """Returns checksums of the weights, of the card with the learning curve, and of the last checkpoint's state."""
    from vgp.data.tensor_file import as_bytes
    from vgp.train.checkpoint import recovery
    from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
    from vgp.train.checkpoint.checkpoint_store import DiskStore

    checksums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in (folder / "model").iterdir()}
    store = DiskStore(folder / "checkpoints")
    manifest = recovery.read_manifest(store, recovery.list_manifests(store, 0)[0])
    recovery.verify(store, manifest)
    state = hashlib.sha256(json.dumps([manifest.scalars, manifest.trainer, manifest.history], sort_keys=True).encode())
    for name, tensor in sorted(
        CheckpointReader(store, manifest).tensors().items()
    ):  # independent of the number of parts
        state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        state.update(as_bytes(tensor).tobytes())
    return checksums | {"state": state.hexdigest()}


def compute_largest_difference(one: Path, other: Path) -> float:
    """Returns the largest difference between two models' weights, relative to the largest weight of the tensor."""
    from safetensors.torch import load_file

    first, second = (load_file(folder / "model" / "model.safetensors") for folder in (one, other))
    return max(float((first[k] - second[k]).abs().max() / first[k].abs().max().clamp_min(1e-12)) for k in first)


def train_disturbed(
    data: Path, folder: Path, worlds: list[int], settings: list[str], kills: int, seed: int
) -> list[str]:
    """Trains to the end under kills, and returns the kinds of the killed processes."""
    dice, victims = random.Random(seed), []
    for nproc in itertools.cycle(worlds):
        process = start(build_command(data, folder, nproc, settings))
        if len(victims) < kills:
            time.sleep(dice.uniform(0, 2.5 * EXPECTED_STARTUP_S))
            victims.append(kill_one(process, dice))
        _, errors = process.communicate()
        if left := find_orphans(folder):
            raise SystemExit(f"orphans after killing {victims[-1]}: {left}")
        if process.returncode == 0:
            return victims
        if len(victims) >= kills and process.returncode not in (1, -9):
            raise SystemExit(errors)
    return victims


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--nproc", default="2", help="processes; several numbers, such as 2,1,4, are used in turn")
    parser.add_argument("--data", type=Path, help="a prepared dataset; default: the flights")
    parser.add_argument("--set", action="append", default=[], help="a training setting; repeatable")
    parser.add_argument("--judged", action="store_true", help="validate often, average, stop early, ship the best")
    given = parser.parse_args()
    given.set = [*(JUDGED if given.judged else ()), *given.set]
    worlds = [int(word) for word in given.nproc.split(",")]
    with tempfile.TemporaryDirectory() as scratch:
        data = given.data or Path(scratch) / "data"
        if not given.data:
            subprocess.run([sys.executable, "-m", "vgp.steps", "prepare", str(data)], check=True, capture_output=True)
        report(Path(scratch), data, worlds, given)


def report(scratch: Path, data: Path, worlds: list[int], given: argparse.Namespace) -> None:
    os.environ["CHAOS_RUN"] = str(scratch / "disturbed")
    settings = ["epochs=6", "microbatches=4", "checkpoint_every_s=1", *given.set]
    reference, folder = scratch / "reference", scratch / "disturbed"
    done = subprocess.run(build_command(data, reference, worlds[0], settings), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    useful_s = json.loads(done.stdout)["seconds"]
    began = time.monotonic()
    victims = train_disturbed(data, folder, worlds, settings, given.kills, given.seed)
    wall_s = time.monotonic() - began
    print(machine.describe())
    print(
        f"seed {given.seed}, processes {given.nproc}, {len(victims)} kills: {', '.join(v or 'late' for v in victims)}"
    )
    print(f"useful step time {useful_s:.1f} s / wall time {wall_s:.1f} s = {useful_s / wall_s:.2f}")
    same = {name: compute_fingerprint(reference)[name] == value for name, value in compute_fingerprint(folder).items()}
    print("bit-identical: " + ", ".join(f"{name} {'yes' if equal else 'NO'}" for name, equal in sorted(same.items())))
    print(f"largest relative difference of a weight: {compute_largest_difference(reference, folder):.2e}")
    raise SystemExit(0 if all(same.values()) or len(set(worlds)) > 1 else 1)


if __name__ == "__main__":
    main()
