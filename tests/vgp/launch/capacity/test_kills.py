"""A launcher that is killed before or after any of its requests, and started again."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise

import pytest
import requests

from tools.emulator.cloud import Cloud, status
from vgp.launch.capacity import attempt

from .conftest import CREATE, QUOTA, STOCKOUT, CloudClock, Killed, Launcher, is_waiting, ladder_of, rung

#: The first request that is not answered, and how many lie between two: all of them take minutes.
FIRST, STRIDE = 4, 19


def killed() -> None:
    raise Killed


class Requests:
    """The requests of the launcher, but for those of a token; one of them kills it."""

    def __init__(self) -> None:
        self.count, self.fatal, self.after = 0, -1, False
        #: Address and body of each.
        self.seen: list[tuple[str, bytes]] = []
        #: Kills after this method and end of an address instead.
        self.call = ("", "-")
        self.send = requests.Session.send
        #: What befalls the launcher there.
        self.strike: Callable[[], None] = killed

    @contextmanager
    def counted(self) -> Iterator[None]:
        def send(session, request, **how):
            if request.url.endswith("/token") or threading.current_thread() is not threading.main_thread():
                return self.send(session, request, **how)
            self.count += 1
            self.seen.append((request.url, request.body if isinstance(request.body, bytes) else b""))
            if self.count == self.fatal and not self.after:
                self.strike()
            answer = self.send(session, request, **how)
            if self.count == self.fatal and self.after:
                self.strike()
            if request.method == self.call[0] and request.url.endswith(self.call[1]):
                raise Killed
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(requests.Session, "send", send)
            yield


def climb(cloud: Cloud, launcher: Launcher, fatal: int, after: bool, tasks: tuple[int, int]) -> int:
    """Runs the launcher, kills it at a request, and starts it again; how many requests the first had made."""
    launcher.plan = ladder_of(rung("spot"), rung("standard", strategy="standard"))
    launcher.jobs_do({"seconds": 50, "fail": STOCKOUT}, {"seconds": 50})
    sent = Requests()
    sent.fatal, sent.after = fatal, after
    with sent.counted():
        first = launcher.run(tasks[0])
        if first == -9:
            assert launcher.run(tasks[1]) == 0
    return sent.count


def assert_one_after_another(launcher: Launcher) -> None:
    """No two jobs at once, none left, and one attempt for each."""
    now = launcher.cloud.clock.now()
    jobs = [job.render(now) for job in launcher.cloud.custom_jobs.jobs.values()]
    spans = sorted((job.create_time.ToDatetime(), job.end_time.ToDatetime()) for job in jobs)
    assert all(end <= begin for (_, end), (begin, _) in zip(spans, spans[1:], strict=False)), spans
    attempts = launcher.ladder["attempts"]
    assert {attempt["job"] for attempt in attempts if attempt["job"]} == set(launcher.jobs)
    assert all(attempt["outcome"] for attempt in attempts) and attempts[-1]["outcome"] == "succeeded"
    assert {"RUNNING", "PENDING"}.isdisjoint(launcher.jobs.values())


def test_a_launcher_killed_at_any_request_goes_on_with_one_job_at_a_time(monkeypatch, cloud):
    """Before or after it, and taken up by the same attempt of Vertex AI or by another."""
    monkeypatch.setattr(attempt, "POLL_S", 30.0)
    for number, fatal in enumerate(range(FIRST, 200, STRIDE)):
        launcher, other = fresh(cloud), 7654321 if number % 2 else 1234567
        if climb(cloud, launcher, fatal, number % 4 > 1, (1234567, other)) < fatal:
            return  # it was done before
        assert_one_after_another(launcher)


def test_a_launcher_killed_before_it_could_note_its_job_finds_it_again(cloud, launcher):
    sent = Requests()
    sent.call = ("POST", "/customJobs")
    with sent.counted():
        assert launcher.run() == -9
    assert launcher.run() == 0 and len(launcher.jobs) == 1
    assert_one_after_another(launcher)


def test_a_job_that_is_created_after_a_newer_launcher_gave_it_up_is_cancelled(cloud, launcher, capsys):
    """The older launcher stood still before it asked for the job, while the newer one did all the work."""
    sent, codes = Requests(), list[int]()
    with sent.counted():
        assert launcher.run() == 0
    created = next(number for number, (_, body) in enumerate(sent.seen, 1) if b"training-attempt" in body)
    launcher, sent = fresh(cloud), Requests()
    sent.fatal, sent.strike = created, lambda: codes.append(launcher.run())
    launcher.jobs_do({"seconds": 60}, {"seconds": 36_000})
    with sent.counted():
        assert launcher.run() == 1 and codes == [0]
    assert sorted(launcher.jobs.values()) == ["CANCELLED", "SUCCEEDED"]
    assert launcher.outcomes == ["lost", "succeeded"] and launcher.heartbeat["attempt"] == ""
    assert "came too late for its attempt" in capsys.readouterr().err


@pytest.mark.parametrize("is_newer", [True, False])
def test_sigterm_before_its_first_request_is_answered_cancels_the_job_of_an_older_launcher_alone(launcher, is_newer):
    """A launcher that stalled as it began, until another took its place, is stopped: the run is not."""
    sent = Requests()

    def another_works_a_while():
        launcher.clock.sleep(1200)
        launcher.at(300, launcher.kill)
        assert launcher.run() == -9

    def struck():
        if is_newer:
            another_works_a_while()
        signal.raise_signal(signal.SIGTERM)

    launcher.jobs_do({"seconds": 36_000})
    if not is_newer:
        another_works_a_while()
    sent.fatal, sent.strike = 1, struck
    with sent.counted():
        assert launcher.run() == 143
    assert list(launcher.jobs.values()) == ["RUNNING" if is_newer else "CANCELLED"]
    assert launcher.outcomes == [None if is_newer else "cancelled"]
    assert bool(launcher.heartbeat["attempt"]) == is_newer


def test_sigterm_at_any_request_of_a_change_of_rungs_leaves_no_job(monkeypatch, cloud):
    monkeypatch.setattr(attempt, "POLL_S", 30.0)
    before = signal.getsignal(signal.SIGTERM)
    for number in range(3, 200, 11):
        launcher, sent = fresh(cloud), Requests()
        launcher.plan = ladder_of(rung("spot"), rung("standard", strategy="standard"))
        launcher.jobs_do({"seconds": 50, "fail": STOCKOUT}, {"seconds": 50})
        sent.fatal, sent.strike = number, partial(signal.raise_signal, signal.SIGTERM)
        with sent.counted():
            code = launcher.run()
        signal.signal(signal.SIGTERM, before)
        if sent.count < number:
            return  # it was done before
        assert code == 143 and {"RUNNING", "PENDING"}.isdisjoint(launcher.jobs.values()), number
        assert None not in launcher.outcomes and launcher.heartbeat["attempt"] == "", number


def test_sigterm_at_any_request_of_a_run_that_goes_on_ends_nothing(monkeypatch, cloud):
    """Before or after it; where the launcher had ended it came too late to matter."""
    monkeypatch.setattr(attempt, "POLL_S", 30.0)
    cloud.pipeline_jobs.going_on("run-1", "train")
    for number, at in enumerate(range(FIRST, 200, STRIDE)):
        launcher, sent = fresh(cloud), Requests()
        launcher.plan = ladder_of(rung("spot"), rung("standard", strategy="standard"), location=cloud.region)
        launcher.jobs_do({"seconds": 50, "fail": STOCKOUT}, {"seconds": 50})
        sent.fatal, sent.after, sent.strike = at, number % 2 == 1, partial(signal.raise_signal, signal.SIGTERM)
        with sent.counted():
            assert launcher.run() == 0, at
        assert launcher.outcomes[-1] == "succeeded" and launcher.ladder["term"] == 1, at
        assert_one_after_another(launcher)
        if sent.count < at:
            return  # it was done before


def fresh(cloud: Cloud) -> Launcher:
    """A step of which nothing is there yet."""
    cloud.before.clear()
    cloud.custom_jobs.jobs.clear()
    launcher = Launcher(cloud, CloudClock(cloud))
    for blob in list(launcher.folder.bucket.list_blobs()):
        blob.delete()
    return launcher


def on_demand_and_back(launcher: Launcher, sent: Requests) -> int:
    """Runs a launcher whose job on demand gives way to one that waited, and starts it again if it is killed."""
    standard = rung("standard", strategy="standard", usd_per_hour=9.0)
    launcher.plan = ladder_of(rung("spot"), standard)
    launcher.cloud.fail(CREATE, status(429, QUOTA))
    launcher.jobs_do({"seconds": 6600}, {"seconds": 60})
    launcher.waiting_jobs_do({"waits_s": float("inf"), "seconds": 20, "fail": STOCKOUT}, {"seconds": 300})
    with sent.counted():
        code = launcher.run()
        return launcher.run() if code == -9 else code


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_launcher_killed_while_a_job_waits_leaves_none_behind_and_never_two_at_work(monkeypatch, cloud, after):
    """At any request from before the first one's intention until the second one has taken over."""
    monkeypatch.setattr(attempt, "POLL_S", 60.0)
    calm = Requests()
    assert on_demand_and_back(fresh(cloud), calm) == 0
    first = next(number for number, (url, body) in enumerate(calm.seen, 1) if b"next-1-" in body)
    for fatal in range(first - 3, len(calm.seen), STRIDE):
        launcher, sent = fresh(cloud), Requests()
        sent.fatal, sent.after = fatal + after, after
        assert on_demand_and_back(launcher, sent) == 0, fatal
        assert_waiting_jobs_ended(launcher)


def assert_waiting_jobs_ended(launcher: Launcher) -> None:
    """Each job that waited is in the journal or was ended; they come one after another, and the work is done."""
    jobs, waited, attempts = launcher.cloud.custom_jobs.jobs, launcher.ladder["waiting"], launcher.ladder["attempts"]
    made = {name for name, job in jobs.items() if is_waiting(job.message)}
    assert {"RUNNING", "PENDING"}.isdisjoint(launcher.jobs.values()), launcher.jobs
    assert {each["job"] for each in waited if each["job"]} == made
    assert all(each["outcome"] for each in waited) and launcher.outcomes[-1] == "succeeded"
    assert all(before["ended"] <= after["intended"] for before, after in pairwise(waited))
    took_over = [each["token"] for each in waited if each["outcome"] == "granted"]
    assert took_over == [each["token"] for each in attempts if each["token"].startswith("next-")]
    assert launcher.heartbeat["attempt"] == launcher.heartbeat["next"] == ""
