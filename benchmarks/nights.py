"""Does every night of a schedule end as it should, whatever the nights before it were?

    python -m benchmarks.nights --seeds 20 --nights 30

Each seed plays other nights on the loopback cloud, with the compiled workflow and the real `resolve`: new data, none,
replaced and removed objects, a new champion, failures and reruns, pauses with catch-up, clock changes, cache epochs. A
model of the cache (which artifact was computed from which pins) predicts for each night which steps must run and which
must be hits. The short form is tests/vgp/vertex/schedules/test_thirty_nights.py.
"""

import argparse
import os
import random
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from tests.vgp.vertex.schedules.conftest import SPEC
from tests.vgp.vertex.schedules.nightly import PINNED, Project, became, real_resolve
from tools.emulator.cloud import Cloud
from vgp.settings import load
from vgp.vertex import clients
from vgp.vertex.runs import outputs
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.rerun import rerun
from vgp.vertex.schedules import schedule_control
from vgp.vertex.schedules.schedule_doctor import diagnose_schedules

EVENTS = {"visits": 8, "nothing": 5, "replaced": 1, "champion": 2, "fails": 2, "pause": 1}


class Model:
    """A model of the cache: the artifacts computed so far, with their pins. Each computation makes a new artifact."""

    def __init__(self) -> None:
        self.made: dict[Any, str] = {}

    def night(self, run: Run, fails: str) -> str:
        """Returns the letters that the night's steps must have, given its pins."""
        pins = outputs.return_values(run)
        assert "resolve.data" in pins, (
            f"{run.id} {run.state}: {[(step.name, step.error) for step in run.list_failed_steps()]}"
        )
        data, champion = pins["resolve.data"], pins["resolve.champion"]
        letters, artifacts = "", {}
        for step in PINNED:
            if "F" in letters:
                letters += "-"
                continue
            takes = {"prepare": [data], "train": [data], "evaluate": [champion], "decide": []}[step]
            key = (step, *takes, *artifacts.values())
            if key in self.made:
                letters += "C"
            elif step == fails:
                letters += "F"
            else:
                self.made[key] = run.id
                letters += "R"
            artifacts[step] = (step, self.made.get(key, ""))
        return letters


class Drill:
    def __init__(self, project: Project, seed: int) -> None:
        self.project, self.drawn, self.model = project, random.Random(seed), Model()
        self.pins: dict[Any, str] = {}
        #: Counts of the results of each event, such as ("nothing", "CCCC").
        self.counts: Counter[tuple[str, str]] = Counter()

    def night(self) -> None:
        project = self.project
        (event,) = self.drawn.choices(list(EVENTS), list(EVENTS.values()))
        fails = self.drawn.choice(PINNED) if event == "fails" else ""
        today = project.cloud.clock.now().date()
        if event in ("visits", "pause") or (fails and self.drawn.random() < 0.7):
            project.arrives(today)
        if event == "replaced":
            project.put(name := self.drawn.choice([n for n in project.objects if n.startswith("raw/")]), self.old(name))
        if event == "champion":
            project.put("champion/model.json", b'{"epochs": %d}' % self.drawn.randrange(9))
        if fails:
            project.cloud.script(fails, fail="stockout", seconds=600)
        runs = project.night(self.resumed if event == "pause" else None)
        if fails:
            project.cloud.script(fails, seconds=600)
        for run in runs:
            self.check(event, run, fails)
        if runs and became(runs[-1]).count("F") and self.drawn.random() < 0.5:
            (again,) = project.night(lambda: rerun(project.settings, runs[-1].id, from_failed=True))
            self.check("rerun", again, "")
            assert outputs.return_values(again)["resolve.data"] == outputs.return_values(runs[-1])["resolve.data"]

    def old(self, name: str) -> bytes:
        return bytes(self.project.bucket.blob(name).download_as_bytes())

    def resumed(self) -> None:
        """Resumes after a pause of a night or two; missed runs start at once."""
        settings, clock = self.project.settings, self.project.cloud.clock
        schedule_control.set_state(settings, "nightly", "paused")
        clock.advance(86_400 * self.drawn.choice([1, 2]))
        schedule_control.set_state(settings, "nightly", "active", catch_up=True)

    def check(self, event: str, run: Run, fails: str) -> None:
        expected = self.model.night(run, fails)
        assert became(run) == expected, f"{event}: {run.id} is {became(run)}, must be {expected}"
        self.counts[event, expected] += 1
        state = (tuple(sorted(self.project.objects.items())), self.project.cloud.clock.now())
        if event in ("visits", "nothing", "replaced"):
            self.moved(run, state[0], state[1])

    def moved(self, run: Run, objects: Any, now: datetime) -> None:
        """Checks that equal objects in one epoch have equal pins, and other objects have other pins."""
        raw = tuple(item for item in objects if item[0].startswith("raw/"))
        began = now - timedelta(hours=6)
        state = (raw, int(began.timestamp()) // (14 * 86_400))
        data = str(outputs.return_values(run)["resolve.data"])
        assert self.pins.setdefault(state, data) == data, f"{run.id}: the same state has other pins"
        assert [known for known, pins in self.pins.items() if pins == data] == [state], "other states, the same pins"


def play(seed: int, nights: int) -> str:
    begin = datetime(2026, 3, 1, 12, tzinfo=UTC) + timedelta(days=random.Random(seed).randrange(220))
    with Cloud(now=begin) as cloud, real_resolve():
        os.environ.update(cloud.environment)
        clients.credentials.cache_clear()
        drill = Drill(Project(cloud, load(), SPEC), seed)
        for _ in range(nights):
            drill.night()
        (diagnosis,) = diagnose_schedules(drill.project.settings, [], "365d")
        assert cloud.crashed is None, cloud.crashed
        counts = ", ".join(f"{count} {kind}" for kind, count in diagnosis.counts.items())
        ends = Counter(letters for (_, letters), count in drill.counts.items() for _ in range(count))
        return f"{len(cloud.jobs)} runs from {begin:%Y-%m-%d}, {dict(ends)}; doctor: {counts}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--nights", type=int, default=30)
    given = parser.parse_args()
    for seed in range(given.first, given.first + given.seeds):
        start = time.monotonic()
        print(f"seed {seed}: {play(seed, given.nights)} ({time.monotonic() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
