"""Of the time that machines are paid for, how much trains? Under one preemption an hour of training time.

    python -m benchmarks.goodput --data runs/data
    python -m benchmarks.goodput --data runs/data --cost-s 2 --durable-s 60     # a save of a larger model

A real job is started, saves a few times, is preempted (SIGTERM), goes on, and is preempted again; what it says of
itself in `progress.json` are the parts: the start until training goes on from a checkpoint, what a save takes from
training and how long it takes until it can be read, and the stop. Hours of preemptions (exponential, by a seed) are
then put together of these parts by arithmetic: nobody waits for them, and no machine of a cloud is in it. How long a
cloud takes to give the next machine is none of training's: a column each.

notice   a Spot notice comes first, as Google promises for most ends, and the job saves within it
none     the machine is gone at once: what came after the last checkpoint that can be read is done again
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.chaos import command
from training.loop.interval import LEAST_S, MOST_S, MOST_SHARE, optimum

HOUR, LIVES = 3600.0, 20_000
#: Seconds that a cloud takes from the end of a machine until the program starts on the next.
PROVISION_S = (0, 120, 300)


@dataclass(frozen=True)
class Parts:
    """Seconds, as a job measured them."""

    start_s: float
    cost_s: float
    durable_s: float
    stop_s: float


def goodput(parts: Parts, interval_s: float, provision_s: float, *, notice: bool, seed: int, per_hour: float) -> float:
    """Share of the wall time that is training which counts."""
    dice, useful_s, wall_s = random.Random(seed), 0.0, 0.0
    for _ in range(LIVES):
        life_s = dice.expovariate(per_hour / HOUR)
        wall_s += provision_s + parts.start_s + life_s + (parts.stop_s if notice else 0)
        turn_s = interval_s + parts.cost_s
        if notice:
            useful_s += life_s - life_s // turn_s * parts.cost_s
        else:  # a save counts once it can be read; it holds what was trained when it began
            readable = max(0, int((life_s - parts.durable_s) // turn_s))
            useful_s += readable * interval_s
    return useful_s / wall_s


def measured(data: Path, nproc: int, settings: list[str]) -> Parts:
    """The parts of a real job: one that goes on from a checkpoint, and that has saved at least three times."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        control = folder / "control"
        control.mkdir()
        beat = {"format": 1, "attempt": "a", "at": "", "every_s": 30, "orphan_s": 36000}
        (control / "heartbeat.json").write_text(json.dumps(beat))
        told = {**os.environ, "TRAINING_CAPACITY": str(control), "TRAINING_ATTEMPT": "a"}
        words = command(data, folder, nproc, ["epochs=100000", "checkpoint_every_s=5", *settings])
        for _ in range(2):
            (control / "progress.json").unlink(missing_ok=True)
            job = subprocess.Popen(words, env=told, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            saves, progress = set(), {"save_cost_s": 0.0}
            while len(saves) < 4:
                time.sleep(0.2)
                if job.poll() is not None:
                    raise SystemExit(job.communicate()[1])
                if (control / "progress.json").exists():
                    progress = json.loads((control / "progress.json").read_text())
                    saves.add(progress["saved_step"])
            began = time.monotonic()
            job.send_signal(signal.SIGTERM)
            job.communicate()
            stop_s = time.monotonic() - began
            progress = json.loads((control / "progress.json").read_text())
        assert job.returncode == 75
        return Parts(progress["start_s"], progress["save_cost_s"], progress["save_s"], stop_s)


def intervals(parts: Parts, per_hour: float) -> dict[str, float]:
    best = max(min(optimum(parts.cost_s, HOUR / per_hour), MOST_S), LEAST_S, parts.cost_s / MOST_SHARE)
    return {"auto": best, "60 s": 60.0, "10 min": 600.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--per-hour", type=float, default=1.0, help="preemptions an hour of training time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="a training setting; repeatable")
    parser.add_argument("--cost-s", type=float, help="in place of the measured one, as of a larger model")
    parser.add_argument("--durable-s", type=float, help="likewise")
    given = parser.parse_args()
    parts = measured(given.data, given.nproc, given.set)
    if given.cost_s or given.durable_s:
        parts = Parts(parts.start_s, given.cost_s or parts.cost_s, given.durable_s or parts.durable_s, parts.stop_s)
    title = (
        f"start {parts.start_s:.1f} s, a save costs {parts.cost_s:.3f} s, readable after {parts.durable_s:.2f} s, "
        f"stop {parts.stop_s:.1f} s; {given.per_hour:g} preemptions an hour; {machine.line()}"
    )
    table = Table("checkpoints", "", *(f"next machine after {s} s" for s in PROVISION_S), title=title)
    for name, interval_s in intervals(parts, given.per_hour).items():
        for notice in (True, False):
            shares = [goodput(parts, interval_s, s, notice=notice, seed=given.seed, per_hour=given.per_hour)
                      for s in PROVISION_S]  # fmt: skip
            shown = name if name != "auto" else f"auto: {interval_s:.0f} s"
            table.add_row(shown, "notice" if notice else "none", *(f"{share:.2%}" for share in shares))
    Console(width=int(os.environ.get("COLUMNS", "140"))).print(table)


if __name__ == "__main__":
    sys.exit(main())
