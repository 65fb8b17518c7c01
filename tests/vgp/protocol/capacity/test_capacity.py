"""The files that a job and its launcher exchange, on a disk and in a bucket."""

import json
import threading
import time
from types import SimpleNamespace

import pytest

from vgp.base.exits import Preempted, UserError
from vgp.base.storage import storage
from vgp.base.storage.slot import Slot
from vgp.protocol.capacity import control as document
from vgp.protocol.capacity import progress
from vgp.protocol.capacity import watcher as watching
from vgp.protocol.capacity.control import Control, read_control
from vgp.protocol.capacity.progress import Pace, Reporter
from vgp.protocol.capacity.watcher import Watcher, followed, require_turn


@pytest.fixture(params=["disk", "bucket"])
def control(request, tmp_path):
    """The folder in the variables of a job of attempt `a1`."""
    if request.param == "disk":
        return Control(str(tmp_path), "a1")
    return Control(f"{request.getfixturevalue('bucket')}/{tmp_path.name}", "a1")


def beat(control, attempt="a1", **changes):
    values = {
        "format": 1,
        "attempt": attempt,
        "at": "2026-11-22T10:00:00Z",
        "every_s": 0.05,
        "orphan_s": 0.4,
        "term": 3,
    }
    storage.overwrite(control.heartbeat, json.dumps(values | changes).encode())


def test_only_a_job_of_the_attempt_that_the_heartbeat_names_begins(control):
    beat(control)
    assert require_turn(control).orphan_s == 0.4
    beat(control, "a2")
    with pytest.raises(
        Preempted, match="another job does this work: .*heartbeat.json names attempt a2, and this is a1"
    ):
        require_turn(control)
    beat(control, "")
    with pytest.raises(Preempted, match="this job, attempt a1, may no longer run"):
        require_turn(control)


def test_of_two_jobs_of_one_request_the_first_goes_on_also_when_it_is_started_again(control):
    beat(control)
    told_so = {"TRAINING_CAPACITY": control.folder, "TRAINING_ATTEMPT": "a1"}
    for job in ("7", "7"):
        with followed(told_so | {"CLOUD_ML_JOB_ID": job}, leads=True):
            pass
    with (
        pytest.raises(Preempted, match="attempt a1 has two jobs, and the other came first"),
        followed(told_so | {"CLOUD_ML_JOB_ID": "8"}, leads=True),
    ):
        raise AssertionError("it began")


@pytest.mark.parametrize("words", [None, b"{", b"[]", b'{"format": 2}', b'{"format": 1, "attempt": "a1"}'])
def test_a_heartbeat_that_is_missing_or_cannot_be_read_is_waited_for(tmp_path, words, capfd, monkeypatch):
    control = Control(str(tmp_path), "a1")
    if words is not None:
        storage.overwrite(control.heartbeat, words)
    with pytest.raises(Preempted, match=r"this job to run in time \(.*heartbeat.json"):
        require_turn(control, patience_s=0.1, look_every_s=0.02)
    monkeypatch.setattr(watching.time, "sleep", lambda _: beat(control))  # the launcher comes while it waits
    assert require_turn(control, patience_s=20, look_every_s=0.02).attempt == "a1"
    assert "waiting for the launcher" in capfd.readouterr().err


def test_a_job_is_stopped_by_a_heartbeat_that_does_not_change_for_too_long(control, monkeypatch):
    """The clock in the heartbeat does not count: it never moves here."""
    now = [1000.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: now[0])
    beat(control, orphan_s=60)
    watcher = Watcher(control, require_turn(control))
    for _ in range(3):
        assert watcher._look() == ""
        now[0] += 55
        assert watcher._look() == ""
        beat(control, orphan_s=60)
    assert watcher._look() == ""
    now[0] += 61
    assert watcher._look() == "no heartbeat from the launcher for 60 s (orphan_s)"


def test_a_job_that_is_no_longer_named_is_stopped_at_every_moment(control, capfd):
    beat(control, orphan_s=60)
    watcher, stopped = Watcher(control, require_turn(control)), threading.Event()
    watcher.start()
    watcher.on_stop(stopped.set)
    beat(control, "a2", orphan_s=60)
    assert stopped.wait(60)
    late = threading.Event()
    watcher.on_stop(late.set)
    watcher.close()
    assert late.is_set() and "names attempt a2" in watcher.why
    assert capfd.readouterr().err.count("stopping: another job does this work") == 1


def test_a_store_that_is_down_is_no_silence_of_the_launcher(bucket, proxy, tmp_path, monkeypatch, capfd):
    """Ten minutes of outage; then the launcher, which could not write either, has as long as ever."""
    now = [1000.0]
    monkeypatch.setattr(document, "_LOOK_S", 0.2)
    monkeypatch.setattr(Slot, "first_pause_s", 0.01)
    control = Control(f"{bucket}/{tmp_path.name}", "a1")
    beat(control, orphan_s=60)
    watcher = Watcher(control, require_turn(control))
    monkeypatch.setattr(watching, "time", SimpleNamespace(monotonic=lambda: now[0]))
    watcher._read_at = now[0]
    assert watcher._look() == ""
    now[0] += 30
    assert watcher._look() == ""
    proxy.fail(503, float("inf"))
    for _ in range(5):
        now[0] += 600
        assert watcher._look() == ""
    assert capfd.readouterr().err.count("heartbeat cannot be read") == 1
    proxy.faults.clear()
    now[0] += 20
    assert watcher._look() == ""
    now[0] += 29
    assert watcher._look() == ""
    now[0] += 2
    assert "no heartbeat from the launcher for 60 s" in watcher._look()


def test_a_heartbeat_that_is_spoilt_for_a_while_is_silence_and_no_more(tmp_path):
    control = Control(str(tmp_path), "a1")
    beat(control, orphan_s=30)
    watcher = Watcher(control, require_turn(control))
    for spoilt in (b"{", b""):
        storage.overwrite(control.heartbeat, spoilt)
        assert watcher._look() == ""
    beat(control, "a2", orphan_s=30)
    assert "names attempt a2" in watcher._look()


def test_progress_is_written_soon_after_a_save_and_at_the_end(control):
    """With what a launcher reads of it, and by which attempt."""
    reporter = Reporter(control, every_s=60, least_s=0.01)
    first = progress.Progress(
        step=5,
        steps=90,
        saved_step=4,
        from_step=3,
        seconds_per_step=0.25,
        save_s=1.5,
        start_s=9.0,
        checkpoint_every_s=84.0,
    )
    reporter.update(first)
    deadline = time.monotonic() + 60
    while not storage_has(control.progress) and time.monotonic() < deadline:
        time.sleep(0.02)
    written = json.loads(storage.read(control.progress, most=1 << 20))
    assert written.pop("at").endswith("Z")
    assert written == {"format": 1, "attempt": "a1", "step": 5, "steps": 90, "saved_step": 4, "from_step": 3,
                       "seconds_per_step": 0.25, "save_s": 1.5, "start_s": 9.0, "save_cost_s": 0.0,
                       "checkpoint_every_s": 84.0}  # fmt: skip
    reporter.update(progress.Progress(step=90, steps=90, saved_step=4))
    reporter.close()
    assert json.loads(storage.read(control.progress, most=1 << 20))["step"] == 90


def storage_has(path):
    try:
        return bool(storage.read(path, most=1 << 20))
    except UserError:
        return False


def test_progress_that_cannot_be_written_stops_nothing_and_is_reported_once(tmp_path, capfd):
    (tmp_path / "file").touch()
    reporter = Reporter(Control(f"{tmp_path}/file/no-folder", "a1"), every_s=0.01, least_s=0.01)
    for step in range(1, 20):
        reporter.update(progress.Progress(step=step, saved_step=step))
        time.sleep(0.01)
    reporter.close()
    assert capfd.readouterr().err.count("cannot be written") == 1


def test_a_job_without_a_launcher_reads_nothing_and_starts_no_thread(tmp_path):
    before = threading.active_count()
    with followed({}, leads=True) as watcher:
        assert watcher is None and progress.reporter({}, 9, 0, 1.0) is None
        assert threading.active_count() == before
    with pytest.raises(UserError, match="TRAINING_ATTEMPT is not set"):
        read_control({"TRAINING_CAPACITY": str(tmp_path)})
    assert read_control({"TRAINING_CAPACITY": "/gcs/b/c/", "TRAINING_ATTEMPT": "a"}) == Control("gs://b/c", "a")


def test_the_pace_leaves_the_first_steps_out(monkeypatch):
    now = iter([100.0, 102.0, 104.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    pace = Pace()
    assert [pace.add(step) for step in (3, 7, 11)] == [0.0, 0.5, 0.5]


def test_the_next_job_waits_for_its_turn_and_ends_where_the_launcher_is_silent(tmp_path, monkeypatch, capfd):
    control = Control(str(tmp_path), "a2")
    turns = iter(
        [{"attempt": "a1", "next": "a2"}] * 3 + [{"attempt": "", "next": "a2"}] + [{"attempt": "a2", "next": ""}]
    )
    monkeypatch.setattr(watching.time, "sleep", lambda _: next_turn())

    def next_turn():
        beat = {"format": 1, "every_s": 1, "orphan_s": 60, **next(turns)}
        storage.overwrite(control.heartbeat, json.dumps(beat).encode())

    next_turn()
    assert require_turn(control, patience_s=60).attempt == "a2"
    assert "has not ended yet" in capfd.readouterr().err and next(turns, None) is None
    beat = {"format": 1, "every_s": 0.01, "orphan_s": 0.05, "attempt": "a1", "next": "a2"}
    storage.overwrite(control.heartbeat, json.dumps(beat).encode())
    monkeypatch.undo()
    with pytest.raises(Preempted, match="has not ended yet"):
        require_turn(control, patience_s=0.05, look_every_s=0.01)
