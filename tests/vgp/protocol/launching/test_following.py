"""A script's job that a launcher follows: it begins if it holds the turn, and stops when no launcher follows it."""

import json
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from vgp.protocol.launching import following
from vgp.protocol.launching.following import PATIENCE_S, Following

from .conftest import TEXT, Launcher, script

IMPATIENT = TEXT.replace(f"PATIENCE_S, LOOK_S = {PATIENCE_S}, 2.0", "PATIENCE_S, LOOK_S = 0.2, 0.05")
STOPPABLE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(0)))
print("up", flush=True)
time.sleep(600)
"""


def beat(folder: Path, attempt: str, **changes: object) -> None:
    values = {"format": 1, "attempt": attempt, "at": "2026-11-22T10:00:00Z", "every_s": 0.1, "orphan_s": 5.0, **changes}
    (folder / "new").write_text(json.dumps(values))
    (folder / "new").rename(folder / "heartbeat.json")


def followed(folder: Path) -> dict[str, object]:
    return {"TRAINING_CAPACITY": folder, "TRAINING_ATTEMPT": "a1"}


def stated(folder: Path, **more: str) -> dict[str, str]:
    return {**{name: str(value) for name, value in followed(folder).items()}, **more}


def test_a_script_of_another_attempt_is_not_started(tmp_path: Path) -> None:
    assert IMPATIENT != TEXT
    launcher = Launcher(tmp_path, IMPATIENT)
    for written, words in (("a2", "names attempt a2. Nothing was started."), ("", "names none. Nothing was started.")):
        beat(tmp_path, written)
        code, out, err = launcher.run(script("print('begun')"), **followed(tmp_path))
        assert (code, out) == (75, "") and words in err
    (tmp_path / "heartbeat.json").write_text("{")
    code, out, err = launcher.run(script("print('begun')"), **followed(tmp_path))
    assert (code, out) == (75, "") and "no heartbeat for 0.2 s that permits this job to run" in err
    assert not (tmp_path / "model").exists()


def test_a_script_of_the_next_attempt_waits_for_its_turn_and_not_for_a_silent_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beat(tmp_path, "a0", next="a1")
    turns = iter([("a0", "a1"), ("", "a1"), ("a1", "")])

    def next_turn(_: float) -> None:
        attempt, coming = next(turns)
        beat(tmp_path, attempt, next=coming)

    monkeypatch.setattr(following.time, "sleep", next_turn)
    assert Following(stated(tmp_path)).await_turn() == "" and next(turns, None) is None
    monkeypatch.undo()
    beat(tmp_path, "a0", next="a1", orphan_s=0.05)
    assert "permits this job to run" in Following(stated(tmp_path)).await_turn(0.05)


def test_of_two_jobs_of_one_attempt_the_first_runs_on_all_its_machines_and_again(tmp_path: Path) -> None:
    beat(tmp_path, "a1")
    first, again, second = (Following(stated(tmp_path, CLOUD_ML_JOB_ID=job)) for job in ("7", "7", "8"))
    assert [follower.await_turn() for follower in (first, again)] == ["", ""]
    assert second.await_turn() == f"another job does this work: {tmp_path}/jobs/a1 names job 7"


def test_an_attempt_that_cannot_be_taken_is_not_begun(tmp_path: Path) -> None:
    beat(tmp_path, "a1")
    (tmp_path / "jobs/a1").mkdir(parents=True)  # its maker was killed before it left its name
    follower = Following(stated(tmp_path, CLOUD_ML_JOB_ID="7"))
    assert follower.await_turn(0) == f"cannot read whether another job does this work ({tmp_path}/jobs/a1 is empty)"
    (tmp_path / "jobs/a1").rmdir()
    (tmp_path / "jobs").rmdir()
    (tmp_path / "jobs").write_text("")
    assert "File exists" in follower.await_turn(0)


def test_a_script_whose_launcher_is_gone_is_stopped(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    beat(tmp_path, "a1")
    child = launcher.start(script(STOPPABLE), **followed(tmp_path))
    assert child.stdout and child.stdout.readline() == b"up\n"
    out, err = child.communicate(timeout=120)
    assert (child.returncode, out) == (143, b"saved\n")
    assert b"stopping: no heartbeat from the launcher for 5 s (orphan_s)." in err


def test_a_heartbeat_that_cannot_be_read_is_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Like a mount whose store is down: a folder in place of the file, so that no read works."""
    beat(tmp_path, "a1", orphan_s=60)
    follower, now, ended = Following(stated(tmp_path)), [1000.0], list[int]()
    assert follower.await_turn() == ""
    times = iter([59, -1, 600, 600, 600, -1, 1, 1])

    def sleep(_: float) -> None:
        step = next(times)
        now[0] += max(step, 0)
        if step < 0:
            toggle(tmp_path / "heartbeat.json")

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(following, "time", clock)
    monkeypatch.setattr(following.os, "kill", lambda pid, number: ended.append(number))
    follower.stop_orphan()
    assert ended == [signal.SIGTERM] and not list(times)


def toggle(path: Path) -> None:
    """Puts a folder in the place of a file, or the file back."""
    aside = path.with_name("aside")
    if path.is_file():
        path.rename(aside)
        path.mkdir()
    else:
        path.rmdir()
        aside.rename(path)


def test_a_script_goes_on_while_its_heartbeat_changes_and_stops_when_another_is_named(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path)
    beat(tmp_path, "a1", orphan_s=20)
    child = launcher.start(script(STOPPABLE), **followed(tmp_path))
    assert child.stdout and child.stdout.readline() == b"up\n"
    beat(tmp_path, "a1", orphan_s=20, at="2026-11-22T10:00:30Z")
    (tmp_path / "heartbeat.json").write_text("")  # as it is read while it is replaced on some file systems
    time.sleep(0.3)
    assert child.poll() is None
    beat(tmp_path, "a2", orphan_s=20)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 143 and b"may not run:" in err and b"names attempt a2" in err
