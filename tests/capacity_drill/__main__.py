"""Climbs of a ladder on a cloud that preempts, stocks out, answers late, loses answers, and kills whoever runs.

    python -m tests.capacity_drill --seeds 0-99                  # 100 traces, a stand-in for training: standin.py
    python -m tests.capacity_drill --seeds 0-9 --work training   # the component `train` itself, in exact mode
    python -m tests.capacity_drill --seeds 0-19 --probes         # on demand, where probes look for Spot
    python -m tests.capacity_drill --calls                       # the launcher killed at every call to Google
    python -m tests.capacity_drill --stories                     # launcher dead for good, run cancelled, mistakes
    python -m tests.capacity_drill --seeds 17 --keep build/drill --json build/drill.json

Every run has to finish by itself, with the bits of an uninterrupted one, at most one interval between checkpoints lost
whenever its machines go, no two jobs at work at once, and with a ladder.json that says what the cloud saw. Time is
compressed: --speed seconds pass in one. Exit code 1: something was not as it must be; 2: the request was wrong.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tests.capacity_drill import rows, work


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.capacity_drill", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=numbers, default="0-9", help="such as 0-99 or 3,7 (default: 0-9)")
    parser.add_argument("--work", choices=("standin", "training"), default="standin")
    parser.add_argument("--probes", action="store_true", help="climbs on which probes look for Spot")
    parser.add_argument("--calls", action="store_true", help="kill the launcher at every call of one climb instead")
    parser.add_argument("--stories", action="store_true", help="one thing that goes wrong at a time instead")
    parser.add_argument("--speed", type=float, default=0, help="default: 100; 10 for training")
    parser.add_argument("--parallel", type=int, default=2, help="climbs at a time (default: 2)")
    parser.add_argument("--keep", type=Path, help="folder for what all processes wrote")
    parser.add_argument("--json", type=Path, help="file for the figures")
    given = parser.parse_args()
    given.speed = given.speed or {"standin": 100.0, "training": 10.0}[given.work]
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory(prefix="drill-") as folder:
        tasks = planned(given, Path(folder))
        found: list[dict[str, Any]] = []
        for row in shown(tasks, given.parallel):
            found.append(row)
            if given.json:  # each time: a drill of hours may be ended before its end
                given.json.write_text(json.dumps(found, indent=1))
    bad = [row for row in found if row["problems"]]
    print(summary(found), flush=True)
    return 1 if bad else 0


def numbers(text: str) -> list[int]:
    """0-99 or 3,7."""
    try:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
        return [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: seeds are numbers, such as 0-99 or 3,7") from None


def planned(given: argparse.Namespace, folder: Path) -> list[tuple[Any, ...]]:
    """A function and its arguments for each climb."""
    if given.calls:
        from tests.capacity_drill import calls

        return [
            (calls.killed, kill, folder / kill.name, given.speed) for kill in calls.every(folder / "calm", given.speed)
        ]
    if given.stories:
        from tests.capacity_drill import stories

        return [(rows.told, story, folder / story.__name__, given.speed) for story in stories.ALL]
    if given.probes:
        from tests.capacity_drill import probes

        return [(probes.played, seed, folder / f"probed-{seed}", given.speed) for seed in given.seeds]
    work.made(given.work, folder).prepare()
    return [(rows.played, seed, given.work, folder / f"seed-{seed}", given.speed) for seed in given.seeds]


def shown(tasks: list[tuple[Any, ...]], parallel: int) -> Any:
    """The rows as they come, each printed."""
    print("name                 attempts launchers  lost  hours    usd  seconds  outcomes", flush=True)
    with ProcessPoolExecutor(parallel, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(*task) for task in tasks]):
            one = done.result()
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(one["outcomes"].items(), key=str))
            print(
                f"{one['name']:20} {one['attempts']:8} {one['launchers']:9} {one['lost']:5} {one['hours']:6.2f} "
                f"{one['usd']:6.2f} {one['seconds']:8.1f}  {kinds}", flush=True,
            )  # fmt: skip
            for problem in one["problems"]:
                print(f"    WRONG: {problem}", flush=True)
            yield one


def summary(found: list[dict[str, Any]]) -> str:
    def total(name: str) -> float:
        return sum(row[name] for row in found)

    kinds = {kind: sum(row["outcomes"].get(kind, 0) for row in found) for row in found for kind in row["outcomes"]}
    told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items(), key=str))
    return (
        f"{len(found)} climbs: {total('attempts')} attempts ({told}), "
        f"{sum(max(row['launchers'] - 1, 0) for row in found)} launchers killed, {total('lost')} steps lost; "
        f"{sum(bool(row['problems']) for row in found)} with something wrong"
    )


if __name__ == "__main__":
    sys.exit(main())
