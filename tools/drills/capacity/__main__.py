"""Climbs of a ladder on a cloud that preempts, stocks out, answers late, loses answers, and kills whoever runs.

    python -m tools.drills.capacity --seeds 0-99                  # 100 traces, a stand-in for training: standin.py
    python -m tools.drills.capacity --seeds 0-99 --work training --parallel 4 --json build/drill.json
                                                                 # the component `train` itself, in exact mode
    python -m tools.drills.capacity --seeds 0-19 --work handover  # a job waits for Spot while one works on demand
    python -m tools.drills.capacity --calls                       # the launcher killed at every call to Google
    python -m tools.drills.capacity --stories                     # launcher dead for good, run cancelled, mistakes
    python -m tools.drills.capacity --seeds 17 --keep build/drill --json build/drill.json

Every run has to finish by itself, with the bits of an uninterrupted one, at most one interval between checkpoints lost
whenever its machines go, no two jobs at work at once, and with a ladder.json that says what the cloud saw. Time is
compressed: --speed seconds pass in one. Columns: jobs created, and those that took a step; steps done again, and at one
end of a job at most; how attempts ended, and what was killed (a launcher; all machines of a job, without a notice; a
node, whose end Vertex AI notices or, if silent, only the other nodes). Nobody but a launcher that is started again, as
Vertex AI does it, does anything. Exit code 1: something was not as it must be; 2: the request was wrong.
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
        for row in shown(planned(given, Path(folder), {row["name"] for row in found}), given.parallel):
            found.append(row)
            if given.json:  # each time: a drill of hours may be ended before its end
                given.json.write_text(json.dumps(found, indent=1))
    print(summary.of(found), flush=True)
    return 1 if any(row["problems"] for row in found) else 0


def numbers(text: str) -> list[int]:
    """0-99 or 3,7."""
    try:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
        return [number for first, *last in ends for number in range(first, (last or [first])[0] + 1)]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: seeds are numbers, such as 0-99 or 3,7") from None


def planned(given: argparse.Namespace, folder: Path, done: set[str]) -> dict[str, tuple[Any, ...]]:
    """A function and its arguments for each climb, by its name; without those that are done."""
    if given.calls:
        from tools.drills.capacity import calls

        kills = calls.every(folder / "calm", given.speed)
        return {kill.name: (calls.killed, kill, folder / kill.name, given.speed) for kill in kills}
    if given.stories:
        from tools.drills.capacity import stories

        return {story.__name__: (rows.told, story, folder / story.__name__, given.speed) for story in stories.ALL}
    seeds = {f"seed {seed}": seed for seed in given.seeds if f"seed {seed}" not in done}
    if seeds:
        work.made(given.work, folder).prepare()
    return {name: (rows.played, seed, given.work, folder / f"seed-{seed}", given.speed) for name, seed in seeds.items()}


def shown(tasks: dict[str, tuple[Any, ...]], parallel: int) -> Iterator[dict[str, Any]]:
    """The rows as they come, each printed."""
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
