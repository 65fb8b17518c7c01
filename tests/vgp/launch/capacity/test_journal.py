"""Two launchers of one step at once, their calls interleaved in any order."""

import random
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from vgp.base.clock import Clock
from vgp.launch.capacity.attempt import Attempts
from vgp.launch.capacity.jobs import Sweep
from vgp.launch.capacity.journal import NO_ATTEMPT, Heartbeat, Journal
from vgp.launch.capacity.outage_retry import Patience, Superseded
from vgp.protocol.capacity.control_folder import Changed, Document
from vgp.protocol.capacity.ladder import Attempt, Ladder, Waiting

from .conftest import ladder_of, rung


class Turns:
    """Lets one thread at a time go on to its next call, chosen by a seed once all of them wait for one."""

    def __init__(self, seed: int, threads: int) -> None:
        self.random, self.running = random.Random(seed), threads
        self.waiting: list[object] = []
        self.chosen: object = None
        self.condition = threading.Condition()

    def take(self) -> None:
        me = object()
        with self.condition:
            self.waiting.append(me)
            self._choose()
            assert self.condition.wait_for(lambda: self.chosen is me, timeout=60)
            self.chosen = None
            self.waiting.remove(me)

    def leave(self) -> None:
        with self.condition:
            self.running -= 1
            self._choose()

    def _choose(self) -> None:
        if self.waiting and len(self.waiting) == self.running:
            self.chosen = self.random.choice(self.waiting)
            self.condition.notify_all()


class Folder:
    """Documents in memory, one call after another."""

    def __init__(self, turns: Turns, documents: dict) -> None:
        self.turns, self.documents = turns, documents

    def read(self, name):
        self.turns.take()
        return self.documents.get(name)

    def write(self, name, content, generation):
        self.turns.take()
        there = self.documents.get(name)
        if (there.generation if there else 0) != generation:
            raise Changed(name)
        self.documents[name] = Document(content, generation + 1)
        return generation + 1


class Jobs:
    """Vertex AI with a list that lags behind, as the launchers call it."""

    def __init__(self, turns: Turns, made: dict, random: random.Random) -> None:
        self.turns, self.made, self.random = turns, made, random

    def create(self, rung, new, executor_input, timeout_s):
        self.turns.take()
        name = f"projects/p/locations/us-central1/customJobs/{len(self.made)}"
        self.made[name] = {"name": name, "labels": {new.LABEL: new.token}, "live": True}
        return None if self.random.random() < 0.3 else self.made[name]

    def find(self, of):
        self.turns.take()
        seen = [job for job in self.made.values() if job["labels"].get(of.LABEL) == of.token]
        return seen if self.random.random() < 0.5 else []

    def cancel(self, name):
        self.turns.take()
        self.made[name]["live"] = False

    def list_active(self, regions):
        self.turns.take()
        return [job for job in self.made.values() if job["live"]]


def attempts(turns: Turns, documents: dict, made: dict, name: str) -> Attempts:
    clock, quiet = Clock(), lambda text: None
    clock.sleep = lambda seconds: None  # type: ignore[method-assign]
    patience = Patience(clock, quiet)
    folder = Folder(turns, documents)
    journal = Journal(folder, patience, name)  # type: ignore[arg-type]
    journal.begin(Ladder(run="run", step="train", began=clock.now(), deadline=None, rungs=[]))
    heartbeat = Heartbeat(folder, clock, quiet, journal.term, 30, 600)  # type: ignore[arg-type]
    run = SimpleNamespace(outputs="o", executor_input="{}", gcp_resources="")
    jobs = Jobs(turns, made, random.Random(f"{turns.random.random()}"))
    sweep = Sweep(jobs, journal, clock, quiet)  # type: ignore[arg-type]
    return Attempts(
        ladder_of(rung()), run, jobs, journal, heartbeat, folder, clock, patience, quiet, sweep, search_s=0.0
    )  # type: ignore[arg-type]


def launch(turns: Turns, documents: dict, made: dict, name: str, ends: dict) -> None:
    """A launcher until a job of its runs, as `Climb` has it."""
    try:
        mine = attempts(turns, documents, made, name)
        ladder = mine.journal.ladder
        mine.heartbeat.allow(ladder.open.token if ladder.open else NO_ATTEMPT)
        while True:
            ladder = mine.journal.read()
            if ladder.open is None:
                mine.start(mine.plan.rungs[0], ladder)
            elif ladder.open.job is None:
                mine.find(ladder.open)
            else:
                mine.sweep()
                ends[name] = ladder.open
                return
    except Superseded:
        ends[name] = None
    finally:
        turns.leave()


@pytest.mark.parametrize("seed", range(30))
def test_two_launchers_at_once_leave_one_attempt_that_runs(seed):
    turns, documents, made, ends = Turns(seed, 2), {}, {}, {}
    both = [threading.Thread(target=launch, args=(turns, documents, made, name, ends)) for name in "ab"]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    ladder = Ladder.from_json(documents["ladder.json"].content)
    (running,) = [attempt for attempt in ladder.attempts if attempt.outcome is None]
    assert ends[ladder.launcher] == running, "the newer launcher has it"
    allowed = documents["heartbeat.json"].content["attempt"]
    live = [job for job in made.values() if job["live"] and job["labels"][Attempt.LABEL] == allowed]
    assert [job["name"] for job in live] == [running.job] and allowed == running.token
    assert all(made[each.job]["live"] == (each is running) for each in ladder.attempts if each.job)


def test_an_older_launchers_sweep_leaves_the_job_of_a_newer_one_alone():
    turns, documents, made = SimpleNamespace(take=lambda: None, random=random.Random(1)), {}, {}
    older, newer = (attempts(turns, documents, made, name) for name in "ab")  # type: ignore[arg-type]
    newer.start(newer.plan.rungs[0], newer.journal.ladder)
    with pytest.raises(Superseded):
        older.sweep()
    assert [job["live"] for job in made.values()] == [True]


def test_a_ladder_of_before_jobs_waited_is_read_without_its_probes():
    content = Ladder(run="r", step="s", began=1e9, deadline=None, rungs=[]).to_json()
    del content["waiting"]
    assert Ladder.from_json(content | {"probes": [{"number": 1, "outcome": "granted"}]}).waiting == ()


def test_a_ladder_comes_back_as_it_was_and_what_later_versions_add_is_dropped():
    attempt = Attempt(number=1, rung="a", region="r", token="1-x", intended=1e9, outputs="o", started=1e9 + 0.5)
    ladder = Ladder(run="r", step="s", began=1e9, deadline=None, rungs=[{"name": "a"}], attempts=(attempt,), term=2)
    waiting = Waiting(number=1, rung="a", region="r", token="1-y", intended=1e9, outcome="granted", usd=2.0)
    ladder = ladder.with_creation(replace(waiting, outcome=None)).with_creation(waiting)
    assert ladder.waiting == (waiting,) and ladder.next is None and ladder.open == attempt and ladder.usd == 2
    content = ladder.to_json()
    assert content["began"] == "2001-09-09T01:46:40.000Z" and content["attempts"][0]["outcome"] is None
    assert Ladder.from_json(content | {"new": 1, "attempts": [content["attempts"][0] | {"new": 1}]}) == ladder
    with pytest.raises(ValueError, match="format 2; this launcher reads 1"):
        Ladder.from_json(content | {"format": 2})


def test_a_write_whose_answer_was_lost_is_not_done_twice():
    documents: dict = {}
    turns = SimpleNamespace(take=lambda: None)
    folder = Folder(turns, documents)  # type: ignore[arg-type]
    clock = Clock()
    clock.sleep = lambda seconds: None  # type: ignore[method-assign]
    journal = Journal(folder, Patience(clock, lambda text: None), "a")  # type: ignore[arg-type]
    written = folder.write

    def lost_once(name, content, generation):
        folder.write = written  # type: ignore[method-assign]
        written(name, content, generation)
        raise ConnectionError

    folder.write = lost_once  # type: ignore[method-assign]
    ladder = journal.begin(Ladder(run="r", step="s", began=1e9, deadline=None, rungs=[]))
    assert ladder.term == 1 and documents["ladder.json"].generation == 1
    attempt = Attempt(number=1, rung="a", region="r", token="1-x", intended=1e9, outputs="o")
    folder.write = lost_once  # type: ignore[method-assign]
    assert journal.write(attempt).attempts == (attempt,) and documents["ladder.json"].generation == 2
    assert journal.write(replace(attempt, job="j")).open.job == "j"
