"""How often to save; and ranks that wait for a checkpoint. Each rank is a thread of this process."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from vgp.base.exits import ProcessFailed, StoreDown, UserError
from vgp.train.checkpoint import recovery, training_state
from vgp.train.checkpoint.checkpoint_store import DiskStore
from vgp.train.loop.checkpoint_saving import LEAST_S, MOST_S, Interval, Saving, optimal_interval
from vgp.train.loop.trainer_state import TrainerState
from vgp.train.loop.training_request import RATE_PER_H, read_failure_rate
from vgp.train.processes.rank import Late, Rank

MINUTE, HOUR = 60.0, 3600.0


@pytest.mark.parametrize(("failure_every_s", "minutes"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)])
def test_the_optimum_is_that_of_dalys_figures_3_to_5(failure_every_s, minutes):
    """Saves of 5 minutes."""
    assert optimal_interval(5 * MINUTE, failure_every_s) / MINUTE == pytest.approx(
        minutes, abs=0.5 if minutes > 10 else 0.05
    )


def test_no_other_interval_loses_less():
    """Held against the whole of Daly's cost function, by arithmetic."""
    for save_s, failure_every_s in ((0.4, 2 * HOUR), (30.0, HOUR), (300.0, 6 * HOUR)):

        def wall(interval_s, save_s=save_s, failure_every_s=failure_every_s):
            return failure_every_s * math.expm1((interval_s + save_s) / failure_every_s) / interval_s

        best = optimal_interval(save_s, failure_every_s)
        assert wall(best) <= 1.0001 * min(wall(best * factor) for factor in (0.5, 0.7, 0.9, 1.1, 1.4, 2))
    assert optimal_interval(3 * HOUR, HOUR) == HOUR


def saved(interval, *, held_s=0.0, waited_s=0.0, slower=1.0, steps=4):
    """The description of an interval after undisturbed steps of 0.1 s and a save that slowed some steps."""
    for _ in range(5):
        assert interval.add(5, 0.5, writing=False) == ""
    interval.begin(held_s)
    interval.hold(waited_s)
    assert interval.add(steps, 0.1 * steps * slower, writing=True) == ""
    return interval.add(steps, 0.1 * steps * slower, writing=False)


def test_what_a_save_costs_decides_and_is_told_once_with_its_reason():
    interval = Interval("auto", 0.4)
    assert interval.every_s == 60
    text = saved(interval, held_s=0.3, waited_s=0.1)
    assert all(fact in text for fact in ("every 85 s", "0.4 s", "2.5 h"))
    assert saved(interval, held_s=0.3, waited_s=0.1) == "" and interval.every_s == pytest.approx(84.5, abs=0.5)
    assert "every 10 min" in saved(Interval("auto"), slower=3.6)  # 8 steps of 0.36 s in place of 0.1 s: 2.1 s


def test_a_save_that_costs_otherwise_than_the_first_moves_the_interval_and_is_told_again():
    interval = Interval("auto", 0.4)
    assert "every 4.2 min" in saved(interval, held_s=3.6)
    said = [saved(interval, held_s=0.4) for _ in range(4)]
    assert interval.every_s == pytest.approx(84.5, abs=0.5)
    assert [text[:23] for text in said if text] == ["checkpoints every 85 s:"]


def test_the_interval_keeps_within_its_bounds_and_says_so():
    cheap, rare, dear = Interval("auto", 60), Interval("auto", 1e-4), Interval("auto", 3600)
    assert saved(cheap, held_s=0.001).endswith("(0.35 s would lose least time, but this is the shortest interval)")
    assert saved(rare, held_s=9.0).endswith("would lose least time, but this is the longest interval)")
    assert saved(dear, held_s=6.0).endswith("saves may take at most 5% of the time)")
    assert (cheap.every_s, rare.every_s, dear.every_s) == (LEAST_S, MOST_S, 120)


def test_a_number_stays_a_number_whatever_saves_cost():
    interval = Interval(7.0, 0.4)
    assert saved(interval, held_s=5.0) == "" and interval.every_s == 7.0


def test_the_rate_is_the_launchers_or_the_stated_one():
    assert read_failure_rate({}) == RATE_PER_H and read_failure_rate({"TRAINING_PREEMPTIONS_PER_HOUR": "0.5"}) == 0.5
    for wrong in ("0", "-1", "often", "nan", "inf"):
        with pytest.raises(UserError, match="TRAINING_PREEMPTIONS_PER_HOUR=.*give a number above 0"):
            read_failure_rate({"TRAINING_PREEMPTIONS_PER_HOUR": wrong})


@pytest.mark.parametrize("step_s", [20.0, 30.0, 70.0, 400.0])
def test_saving_takes_no_more_than_its_share_of_steps_that_are_long(step_s):
    """Each save makes the step beside it a fifth longer, and holds training up for next to nothing."""
    interval, since_s, slower_s, total_s, is_beside = Interval("auto", 0.6), 0.0, 0.0, 0.0, False
    for _ in range(400):
        seconds = step_s * (1.2 if is_beside else 1.0)
        interval.add(1, seconds, writing=False)
        since_s, total_s, slower_s = since_s + seconds, total_s + seconds, slower_s + seconds - step_s
        if is_beside := since_s >= interval.every_s:
            interval.begin(0.01)
            since_s = 0.0
    assert interval.costs and slower_s <= 0.06 * total_s


class Slow(DiskStore):
    """A store that commits after so long."""

    commit_s = 0.0

    def commit(self, name, data):
        time.sleep(self.commit_s)
        return super().commit(name, data)


class Learner:
    def __init__(self):
        self.module = nn.Linear(3, 4)
        self.optimizer = torch.optim.SGD(self.module.parameters())
        self.state = TrainerState()

    def tensors(self):
        return training_state.tensors_of(self.module, self.optimizer)

    def scalars(self):
        return training_state.scalars_of(self.module, self.optimizer)

    def stable(self):
        return training_state.stable_names(self.module, self.optimizer)


@pytest.fixture
def save(tmp_path):
    """The result of each of two ranks that save step 1 and wait for it."""

    def save(*, commit_s, patience_s, hang_after_s, absent=None):
        meeting = dist.HashStore()
        config = SimpleNamespace(
            checkpoint_every_s="auto", checkpoint_patience_s=patience_s, hang_after_s=hang_after_s, keep=3
        )
        request = SimpleNamespace(config=config, checkpoints=str(tmp_path), run=0, launch_id="ab", settings={}, job="",
                                  fence="")  # fmt: skip

        def one(number):
            rank = Rank(number, 2, number, 2, torch.device("cpu"))
            rank.rendezvous, rank.another_rendezvous = meeting, lambda: meeting
            saving = Saving(request, rank, Learner())
            saving.writer.store = Slow(tmp_path)
            saving.writer.store.commit_s = commit_s
            saving.save(1, {})
            if number == absent:
                saving.writer.wait()
                return None
            try:
                began = time.monotonic()
                saving.wait(2)
                return time.monotonic() - began
            except Exception as error:
                return error
            finally:
                saving.writer.thread.join()

        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(one, range(2)))

    return save


def test_a_commit_that_takes_longer_than_a_hang_may_keeps_every_rank_waiting_and_ends_none(save, tmp_path):
    waited = save(commit_s=2.4, patience_s=60, hang_after_s=2)
    assert all(isinstance(seconds, float) and seconds > 2 for seconds in waited), waited
    assert recovery.list_manifests(DiskStore(tmp_path), 0) == ["run000-step000000001.json"]


def test_one_that_takes_longer_than_the_patience_ends_all_ranks_with_the_same_words(save):
    said = save(commit_s=3, patience_s=0.2, hang_after_s=2)
    assert all(isinstance(error, ProcessFailed) for error in said), said
    assert "rank 0 is still writing its share" in str(said[1]) and str(said[0]) == str(said[1])


def test_a_rank_that_does_not_come_is_named_though_the_patience_is_long(save):
    (error, _) = save(commit_s=0, patience_s=60, hang_after_s=0.5, absent=1)
    assert isinstance(error, Late) and "for rank 1" in str(error)


def test_a_store_that_is_down_is_told_from_one_that_refuses_on_every_rank():
    waiting = object.__new__(Saving)
    waiting.config, waiting.patience_s = SimpleNamespace(checkpoint_patience_s=9), 9
    for is_down, kind in ((True, StoreDown), (False, ProcessFailed)):
        with pytest.raises(ProcessFailed, match="no checkpoint could be saved for 9 s .*: 503") as stop:
            waiting._require_patience([[True, "", 1.0, False], [False, "503", 1.0, is_down]])
        assert type(stop.value) is kind
