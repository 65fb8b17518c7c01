"""The checkpoints of a run, as one rank saves them while it trains."""

import os
import time
from typing import Any

import torch

from vgp.base.exits import ProcessFailed, StoreDown, is_store_down
from vgp.train.checkpoint import state
from vgp.train.checkpoint.store import store_at
from vgp.train.checkpoint.writer import Writer
from vgp.train.loop.interval import Interval, rate_per_h
from vgp.train.loop.learner import Learner
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import Rank


def device_kind(rank: Rank) -> str:
    """Such as `NVIDIA L4` or `cpu`: what may round otherwise than another kind."""
    return torch.cuda.get_device_name(rank.device) if rank.device.type == "cuda" else rank.device.type


class Saving:
    """This rank's share of every checkpoint, and when the next one is due by its clock."""

    def __init__(self, request: TrainingRequest, rank: Rank, learner: Learner):
        self.config, self.rank, self.learner = request.config, rank, learner
        self.store = store_at(request.checkpoints)
        self.writer = Writer(
            self.store, rank.another_rendezvous(), rank=rank.rank, world_size=rank.world_size, run=request.run,
            launch_id=request.launch_id, settings=request.settings, keep=self.config.keep,
            patience_s=self.config.checkpoint_patience_s, job=request.job, fence=request.fence,
            device=device_kind(rank),
        )  # fmt: skip
        learner.before_update = self._wait_copied
        #: By rank 0's, whose clock decides.
        self.interval = Interval(self.config.checkpoint_every_s, rate_per_h(os.environ))
        #: How long a rank may work alone on files, such as rank 0 on a commit, while the others wait.
        self.patience_s = self.config.checkpoint_patience_s + self.config.hang_after_s
        #: How long a rank that writes waits before it says so.
        self.look_s = min(1.0, self.config.hang_after_s / 4)
        self.saved_at = time.monotonic()
        #: The step of the checkpoint that the run has gone on from; 0 = none.
        self.resumed_from = 0

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.interval.every_s and not self.writer.busy

    def add(self, steps: int, seconds: float) -> str:
        """Takes note of steps and how long they took; a sentence when how often is saved has changed by that."""
        return self.interval.add(steps, seconds, writing=self.writer.busy)

    def _wait_copied(self) -> None:
        if not self.writer.snapshot.pending:
            return
        began = time.monotonic()
        self.writer.wait_copied()
        self.interval.hold(time.monotonic() - began)

    def save(self, step: int, history: dict[str, Any], *, hurried: bool = False) -> None:
        """Begins to save the state after `step` steps, once the checkpoint before is written.

        Args:
            hurried: Whether the process is about to end, as `Writer.save`.
        """
        self.wait(step)
        began = time.monotonic()
        tensors = self.learner.tensors()
        layout = state.stored(tensors, self.rank.world_size)
        share = state.share(tensors, layout, self.rank.rank)
        self.writer.save(
            step,
            share,
            layout,
            self.learner.scalars(),
            history,
            self.learner.stable(),
            self.learner.state.scalars(),
            hurried=hurried,
        )
        self.saved_at = time.monotonic()
        self.interval.begin(self.saved_at - began)

    def wait(self, step: int) -> None:
        """Until no rank is writing: rank 0 commits what all have written, and may take its time.

        However slow the store, none waits in silence: those that still write say so at every look, so that a rank
        that does not come has stopped, and no collective begins before all are here.
        """
        self.rank.trace.mark(step, "a checkpoint")
        began = time.monotonic()
        while True:
            writing, error, is_down = False, "", False
            try:
                writing = not self.writer.wait(self.look_s)
            except OSError as failure:
                error, is_down = str(failure), is_store_down(failure)
            told = self.rank.exchange(
                [writing, error, time.monotonic() - began, is_down], within_s=self.config.hang_after_s + self.look_s
            )
            self._require_patience(told)
            if not any(writing for writing, *_ in told):
                return

    def _require_patience(self, told: list[Any]) -> None:
        """Raises ProcessFailed, on every rank, if a rank has failed or is still writing after the patience.

        StoreDown if a rank has failed since the store did not answer.
        """
        waited_s = told[0][2]  # one clock decides for all
        late = [str(rank) for rank, (writing, *_) in enumerate(told) if writing]
        why, is_down = next(((error, is_down) for _, error, _, is_down in told if error), ("", False))
        if not why and late and waited_s > self.patience_s:  # longer than rank 0 waits for the others' parts
            why = (
                f"rank {', '.join(late)} is still writing its share to {self.store}, {waited_s:.0f} s after it was due"
            )
        if why:
            failure = StoreDown if is_down else ProcessFailed
            raise failure(
                f"no checkpoint could be saved for {self.config.checkpoint_patience_s:g} s "
                f"(checkpoint_patience_s): {why}"
            )

    def newest(self) -> int:
        """The step of the newest good checkpoint, of this launch or an earlier one; 0 = none."""
        return self.writer.newest() or self.resumed_from
