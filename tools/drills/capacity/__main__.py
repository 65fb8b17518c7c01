"""Runs climbs of a ladder on a cloud with preemptions, stockouts, late and lost answers, and kills.

    python -m tools.drills.capacity --seeds 0-99                  # 100 traces, a stand-in for training: standin.py
    python -m tools.drills.capacity --seeds 0-99 --work training --parallel 4 --json build/drill.json
                                                                 # the component `train`, in exact mode
    python -m tools.drills.capacity --seeds 0-19 --work handover  # a job waits for Spot while one runs on demand
    python -m tools.drills.capacity --calls                       # kills the launcher at every call to Google
    python -m tools.drills.capacity --stories                     # dead launcher, cancelled run, program errors
    python -m tools.drills.capacity --seeds 17 --keep build/drill --json build/drill.json

Every run must finish by itself, with the bits of an uninterrupted run, with at most one interval between checkpoints
lost at each end of its machines, with one active job at a time, and with a ladder.json that matches the cloud. Time is
compressed: --speed seconds pass in one. Columns: jobs created, and jobs with a step; repeated steps in all, and the
most after one job; outcomes of attempts; kills (a launcher; all machines of a job, without a notice; a node, whose end
Vertex AI notices or, if silent, only the other nodes). The only recovery is Vertex AI's restart of a launcher. Exit
codes: 1 a condition is not met; 2 wrong request.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from tools.drills.capacity import climb, rows, summary, work


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.drills.capacity", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=numbers, default="0-9", help="such as 0-99 or 3,7 (default: 0-9)")
    parser.add_argument("--work", choices=("standin", "handover", "training"), default="standin")
    parser.add_argument("--calls", action="store_true", help="kill the launcher at every call of one climb instead")
    parser.add_argument("--stories", action="store_true", help="one thing that goes wrong at a time instead")
    parser.add_argument("--speed", type=float, default=0, help="default: 100; 10 for training")
    parser.add_argument("--parallel", type=int, default=2, help="climbs at a time (default: 2)")
    parser.add_argument("--keep", type=lambda text: Path(text).resolve(), help="folder for what all processes wrote")
    parser.add_argument("--json", type=Path, help="file for the figures; climbs that it has already are not repeated")
    given = parser.parse_args()
    given.speed = given.speed or {"training": 10.0}.get(given.work, 100.0)
    found = json.loads(given.json.read_text()) if given.json and given.json.exists() else []
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory(prefix="drill-") as folder:
        for row in run_climbs(plan_climbs(given, Path(folder), {row["name"] for row in found}), given.parallel):
            found.append(row)
            if given.json:  # after each row, because a long drill may be interrupted
                given.json.write_text(json.dumps(found, indent=1))
    print(summary.of(found), flush=True)
    return 1 if any(row["problems"] for row in found) else 0


def numbers(text: str) -> list[int]:
    """Parses seeds: 0-99 or 3,7."""
    try:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
        return [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: seeds are numbers, such as 0-99 or 3,7") from None


def plan_climbs(given: argparse.Namespace, folder: Path, done: set[str]) -> dict[str, tuple[Any, ...]]:
    """Returns a function and its arguments for each climb by name, except the finished climbs in `done`."""
    if given.calls:
        from tools.drills.capacity import calls

        kills = calls.list_kills(folder / "calm", given.speed)
        return {kill.name: (calls.run_kill, kill, folder / kill.name, given.speed) for kill in kills}
    if given.stories:
        from tools.drills.capacity import stories

        return {story.__name__: (rows.run_story, story, folder / story.__name__, given.speed) for story in stories.ALL}
    seeds = {f"seed {seed}": seed for seed in given.seeds if f"seed {seed}" not in done}
    if seeds:
        work.make_work(given.work, folder).prepare()
    return {
        name: (rows.run_seed, seed, given.work, folder / f"seed-{seed}", given.speed) for name, seed in seeds.items()
    }


def run_climbs(tasks: dict[str, tuple[Any, ...]], parallel: int) -> Iterator[dict[str, Any]]:
    """Runs the climbs, prints and yields each row."""
    print(summary.HEAD, flush=True)
    with ProcessPoolExecutor(parallel, multiprocessing.get_context("spawn"), climb.end_with_the_drill) as pool:
        names = {pool.submit(*task): name for name, task in tasks.items()}
        for done in as_completed(names):
            error = done.exception()
            row = rows.empty(names[done], [f"the drill failed: {error!r}"]) if error else done.result()
            print("\n".join(summary.lines(row)), flush=True)
            yield row


if __name__ == "__main__":
    sys.exit(main())
