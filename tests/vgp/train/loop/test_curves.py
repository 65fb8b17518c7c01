"""TensorBoard's curves, read back with TensorBoard's own reader; the learning curve over a resume."""

import errno
from pathlib import Path

import pytest

from vgp.train.loop.curves import Curves, History
from vgp.train.loop.sample_order import Plan


def points(folder: Path, tag: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    return [(event.step, round(event.value, 3)) for event in events.Scalars(tag)]


def write(folder: Path, first: int, last: int, offset: float, flushed_at: int) -> Curves:
    curves = Curves(str(folder), first)
    for step in range(first + 1, last + 1):
        curves.add({"loss": step + offset}, step)
        if step == flushed_at:
            curves.flush()
    return curves


def test_a_killed_run_that_goes_on_shows_each_step_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps up to the checkpoint, 4, as they were, those after it as they were computed last."""
    killed = write(tmp_path, 0, 9, 0.1, flushed_at=4)
    killed.flush()
    monkeypatch.setattr("time.time", lambda: 2e9)  # the names of the files begin with the second
    write(tmp_path, 4, 7, 0.2, flushed_at=7)
    assert points(tmp_path, "loss") == [(step, step + (0.1 if step <= 4 else 0.2)) for step in range(1, 8)]


def test_a_run_that_begins_anew_shows_nothing_of_one_without_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, 0, 9, 0.1, flushed_at=9)
    monkeypatch.setattr("time.time", lambda: 2e9)
    write(tmp_path, 0, 3, 0.2, flushed_at=3)
    assert points(tmp_path, "loss") == [(1, 1.2), (2, 2.2), (3, 3.2)]


def test_what_was_flushed_is_there_without_an_end(tmp_path: Path) -> None:
    curves = write(tmp_path, 0, 5, 0.0, flushed_at=5)
    assert [step for step, _ in points(tmp_path, "loss")] == [1, 2, 3, 4, 5]
    curves.close()


def test_a_long_run_is_shown_ever_more_thinly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    curves = Curves(str(tmp_path), 0)
    shown = 0
    for _ in range(100_000):  # twice a second for 14 hours
        now += 0.5
        if curves.due:
            curves.shown_at = now
            shown += 1
    curves.close()
    assert 2000 < shown < 12_000


def test_a_full_disk_costs_the_curves_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    curves = Curves(str(tmp_path), 0)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(curves.writer, "add_scalar", full)
    for step in (1, 2):
        curves.add({"loss": 0.0}, step)
    curves.flush()
    curves.close()
    assert capsys.readouterr().err.count("warning: TensorBoard curves end here: [Errno 28] No space left") == 1


def test_a_validation_is_a_point_of_its_own_wherever_it_comes():
    """Of 600 steps every third is a point; the losses of a point are those since the one before."""
    plan = Plan(samples=60_000, epochs=1, global_batch_size=100, microbatches=1, seed=0)
    history = History(plan, 0.1, lambda step: 1.0)
    for step in range(8):
        history.add(step, float(step))
        if step + 1 in (4, 6):
            history.validated(step + 1, 0.5, {"recall": 0.25})
    history.validated(8, None, {})
    shown = [(p["step"], p["loss"], p["validation_loss"], p["metrics"]) for p in history.points]
    measured = (0.5, {"recall": 0.25})
    assert shown == [(3, 1.0, None, {}), (4, 3.0, *measured), (6, 4.5, *measured), (8, 6.5, None, {})]
    resumed = History(plan, 0.1, lambda step: 1.0)
    resumed.go_on(history.state, 8)
    assert resumed.state == history.state
