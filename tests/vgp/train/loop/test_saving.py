"""Ranks that wait for a checkpoint, with a store that takes its time. Each rank is a thread of this process."""

import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch import nn

from vgp.base.exits import ProcessFailed, StoreDown
from vgp.train.checkpoint import recovery, state
from vgp.train.checkpoint.store import DiskStore
from vgp.train.loop.saving import Saving
from vgp.train.loop.trainer_state import TrainerState
from vgp.train.processes.rank import Late, Rank


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
        return state.tensors_of(self.module, self.optimizer)

    def scalars(self):
        return state.scalars_of(self.module, self.optimizer)

    def stable(self):
        return state.stable(self.module, self.optimizer)


@pytest.fixture
def save(tmp_path):
    """What every one of two ranks that save step 1 and wait for it has to say of that."""

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
    waited = save(commit_s=5, patience_s=60, hang_after_s=4)
    assert all(isinstance(seconds, float) and seconds > 4 for seconds in waited), waited
    assert recovery.committed(DiskStore(tmp_path), 0) == ["run000-step000000001.json"]


def test_one_that_takes_longer_than_the_patience_ends_all_ranks_with_the_same_words(save):
    said = save(commit_s=6, patience_s=0.2, hang_after_s=4)
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
