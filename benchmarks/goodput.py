"""Which share of the paid machine time trains, with one preemption per hour of training?

    python -m benchmarks.goodput --data runs/data
    python -m benchmarks.goodput --data runs/data --cost-s 2 --durable-s 60     # a save of a larger model
    python -m benchmarks.goodput --data runs/data --run 8 --per-hour 30         # and an observed run; 45 minutes

A real job starts, saves a few times, is preempted (SIGTERM), resumes, and is preempted again. Its `progress.json`
gives the parts: the time from the start until training resumes from a checkpoint, the training time that a save costs,
the time until a save can be read, and the time to stop. Hours of preemptions (exponential, seeded) are then computed
from these parts. The time that a cloud takes to give the next machine does not depend on training: a column for each.

notice   a Spot notice comes first, as Google promises for most ends, and the job saves before the end
none     the machine is gone at once: steps after the last readable checkpoint are repeated

`--run N` compares the computation with real runs: a training job is ended N times by SIGTERM, and another N times by
SIGKILL, at random times of that distribution, and is restarted at once. *Seen* is the number of saved steps, times the
seconds of a step in a job that never saves, over the elapsed time. *Foretold* is the computation for those times and
for the save interval that the jobs chose. More preemptions per hour make the run shorter. The machine must be quiet: if
a step takes longer before than after, the share means nothing.
"""

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.chaos import build_command
from vgp.train.loop.checkpoint_saving import LEAST_S, MOST_S, MOST_SHARE, optimal_interval
from vgp.train.loop.training_request import RATE_VARIABLE

HOUR, LIVES = 3600.0, 20_000
#: Seconds from the end of a machine until the program starts on the next machine.
PROVISION_S = (0, 120, 300)
#: Duration of the job without saves that measures the seconds of a step; jobs write progress twice a minute.
UNDISTURBED_S = 95.0
NEVER_S = 1e6


@dataclass(frozen=True)
class Parts:
    """Durations that a job measured, in seconds."""

    start_s: float
    cost_s: float
    durable_s: float
    stop_s: float


def draw_lives(seed: int, per_hour: float, count: int = LIVES) -> list[float]:
    """Returns the seconds of training between consecutive preemptions."""
    dice = random.Random(seed)
    return [dice.expovariate(per_hour / HOUR) for _ in range(count)]


def compute_goodput(
    parts: Parts, interval_s: float, provision_s: float, lived: Sequence[float], *, notice: bool
) -> float:
    """Returns the share of the wall time in which useful steps are trained."""
    useful_s = wall_s = 0.0
    for life_s in lived:
        wall_s += provision_s + parts.start_s + life_s + (parts.stop_s if notice else 0)
        turn_s = interval_s + parts.cost_s
        if notice:
            useful_s += life_s - life_s // turn_s * parts.cost_s
        else:  # a save counts when it can be read, with the steps trained before it began
            readable = max(0, int((life_s - parts.durable_s) // turn_s))
            useful_s += readable * interval_s
    return useful_s / wall_s


class Folder:
    """A folder in which jobs train one after another, with the control folder of their progress."""

    def __init__(self, path: Path, data: Path, nproc: int, settings: Sequence[str]) -> None:
        self.path, self.words = path, build_command(data, path, nproc, ["epochs=100000", *settings])
        self.control = path / "control"
        self.control.mkdir(parents=True)
        beat = {"format": 1, "attempt": "a", "at": "", "every_s": 30, "orphan_s": 36000}
        (self.control / "heartbeat.json").write_text(json.dumps(beat))

    @contextmanager
    def job(self, per_hour: float) -> Iterator["subprocess.Popen[str]"]:
        """Starts a job that resumes from the newest checkpoint, and ends it at the end of the block."""
        (self.control / "progress.json").unlink(missing_ok=True)
        variables = {"TRAINING_CAPACITY": str(self.control), "TRAINING_ATTEMPT": "a", RATE_VARIABLE: str(per_hour)}
        with open(self.path / "said", "w") as log:
            job = subprocess.Popen(
                self.words, env={**os.environ, **variables}, stdout=subprocess.DEVNULL, stderr=log, text=True
            )
        try:
            yield job
        finally:
            job.kill()
            job.wait()

    def progress(self, job: "subprocess.Popen[str]") -> dict[str, Any]:
        """Returns the last progress of a job, or {} before it trains."""
        if job.poll() is not None:
            raise SystemExit((self.path / "said").read_text())
        path = self.control / "progress.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def stop(self, job: "subprocess.Popen[str]") -> tuple[float, dict[str, Any]]:
        """Returns the seconds from the notice to the end, and the job's last progress."""
        began = time.monotonic()
        job.send_signal(signal.SIGTERM)
        code = job.wait()
        stop_s = time.monotonic() - began
        assert code == 75, (self.path / "said").read_text()
        return stop_s, json.loads((self.control / "progress.json").read_text())


def measure_parts(folder: Folder) -> Parts:
    """Returns the parts of a real job that has resumed from a checkpoint and saved at least three times."""
    for _ in range(2):
        with folder.job(1.0) as job:
            saves: set[int] = set()
            while len(saves) < 4:
                time.sleep(0.2)
                saves.add(folder.progress(job).get("saved_step", 0))
            stop_s, progress = folder.stop(job)
    return Parts(progress["start_s"], progress["save_cost_s"], progress["save_s"], stop_s)


def measure_undisturbed(folder: Folder) -> float:
    """Returns the seconds of a step in a job that never saves."""
    with folder.job(1.0) as job:
        wait_for_training(folder, job, UNDISTURBED_S)
        return float(folder.progress(job)["seconds_per_step"])


def wait_for_training(folder: Folder, job: "subprocess.Popen[str]", seconds: float) -> None:
    """Waits until the job has trained for `seconds`."""
    while not folder.progress(job):
        time.sleep(0.05)
    until = time.monotonic() + seconds
    while (left_s := until - time.monotonic()) > 0:
        time.sleep(min(1.0, left_s))
        folder.progress(job)


def observe(folder: Folder, lived: Sequence[float], per_hour: float, *, notice: bool) -> tuple[int, float, float]:
    """Returns the number of useful steps, the elapsed seconds, and the save interval that the jobs chose."""
    with folder.job(per_hour) as job:  # the first start resumes nothing
        wait_for_training(folder, job, 0)
        _, progress = folder.stop(job)
    first, intervals_s, began = progress["saved_step"], [], time.monotonic()
    for life_s in lived:
        with folder.job(per_hour) as job:
            wait_for_training(folder, job, life_s)
            progress = folder.stop(job)[1] if notice else folder.progress(job)
        intervals_s.append(progress["checkpoint_every_s"])
    wall_s = time.monotonic() - began
    if not notice:  # only steps from which the next job resumes count
        with folder.job(per_hour) as job:
            wait_for_training(folder, job, 0)
            progress = folder.progress(job)
    return progress["saved_step"] - first, wall_s, statistics.median(intervals_s)


def choose_intervals(parts: Parts, per_hour: float) -> dict[str, float]:
    best = max(min(optimal_interval(parts.cost_s, HOUR / per_hour), MOST_S), LEAST_S, parts.cost_s / MOST_SHARE)
    return {f"auto: {best:.0f} s": best, "60 s": 60.0, "10 min": 600.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a prepared dataset")
    parser.add_argument("--nproc", type=int, default=2)
    parser.add_argument("--per-hour", type=float, default=1.0, help="preemptions an hour of training time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", action="append", default=[], help="a training setting; repeatable")
    parser.add_argument(
        "--cost-s", type=float, help="replaces the measured value, for example by that of a larger model"
    )
    parser.add_argument("--durable-s", type=float, help="replaces the measured value")
    parser.add_argument(
        "--run", type=int, default=0, metavar="N", help="end a real job N times with a notice, N without"
    )
    given = parser.parse_args()
    if given.run and (given.cost_s or given.durable_s):
        parser.error("--run measures what a save costs: leave out --cost-s and --durable-s")
    with tempfile.TemporaryDirectory() as scratch:
        report(given, Path(scratch))


def report(given: argparse.Namespace, scratch: Path) -> None:
    def folder(name: str, *settings: str) -> Folder:
        return Folder(scratch / name, given.data, given.nproc, [*given.set, *settings])

    parts = measure_parts(folder("parts", "checkpoint_every_s=5"))
    if given.cost_s or given.durable_s:
        parts = Parts(parts.start_s, given.cost_s or parts.cost_s, given.durable_s or parts.durable_s, parts.stop_s)
    title = (
        f"start {parts.start_s:.1f} s, a save costs {parts.cost_s:.3f} s, readable after {parts.durable_s:.2f} s, "
        f"stop {parts.stop_s:.1f} s; {given.per_hour:g} preemptions an hour; {machine.describe()}"
    )
    table = Table("checkpoints", "", *(f"next machine after {s} s" for s in PROVISION_S), title=title)
    lived = draw_lives(given.seed, given.per_hour)
    for name, interval_s in choose_intervals(parts, given.per_hour).items():
        for notice in (True, False):
            shares = [compute_goodput(parts, interval_s, s, lived, notice=notice) for s in PROVISION_S]
            table.add_row(name, "notice" if notice else "none", *(f"{share:.2%}" for share in shares))
    console = Console(width=int(os.environ.get("COLUMNS", "140")))
    console.print(table)
    if given.run:
        for notice in (True, False):
            console.print(compare_observed(given, folder, parts, lived[: given.run], notice=notice))


def compare_observed(
    given: argparse.Namespace, folder: Callable[..., Folder], parts: Parts, lived: Sequence[float], *, notice: bool
) -> str:
    """Compares the observed share with the computed one; the seconds of a step are measured before and after."""
    before_s = measure_undisturbed(folder(f"before-{notice}", f"checkpoint_every_s={NEVER_S:g}"))
    steps, wall_s, interval_s = observe(folder(f"seen-{notice}"), lived, given.per_hour, notice=notice)
    after_s = measure_undisturbed(folder(f"after-{notice}", f"checkpoint_every_s={NEVER_S:g}"))
    share, foretold = (
        steps * (before_s + after_s) / 2 / wall_s,
        compute_goodput(parts, interval_s, 0, lived, notice=notice),
    )
    return (
        f"{len(lived)} ends, {'with' if notice else 'without'} notice, {sum(lived):.0f} s of training, checkpoints "
        f"every {interval_s:.0f} s: seen {share:.2%}, foretold {foretold:.2%}; {steps} steps in {wall_s:.0f} s, one "
        f"without saves {1000 * before_s:.3f} ms before and {1000 * after_s:.3f} ms after"
    )


if __name__ == "__main__":
    main()
