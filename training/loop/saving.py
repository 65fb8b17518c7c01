"""The checkpoints of a run, as one rank saves them while it trains."""

import time
from typing import Any

from training.checkpoint import state
from training.checkpoint.store import store_at
from training.checkpoint.writer import Writer
from training.errors import ProcessFailed
from training.loop.learner import Learner
from training.loop.request import TrainingRequest
from training.processes.rank import Rank


class Saving:
    """This rank's share of every checkpoint, and when the next one is due by its clock."""

    def __init__(self, request: TrainingRequest, rank: Rank, learner: Learner):
        self.config, self.rank, self.learner = request.config, rank, learner
        self.store = store_at(request.checkpoints)
        self.writer = Writer(
            self.store, rank.another_rendezvous(), rank=rank.rank, world_size=rank.world_size, run=request.run,
            launch_id=request.launch_id, settings=request.settings, keep=self.config.keep,
            patience_s=self.config.checkpoint_patience_s, job=request.job, fence=request.fence,
        )  # fmt: skip
        learner.before_update = self.writer.wait_copied
        #: How long a rank may work alone on files, such as rank 0 on a commit, while the others wait.
        self.patience_s = self.config.checkpoint_patience_s + self.config.hang_after_s
        self.saved_at = time.monotonic()
        #: The step of the checkpoint that the run has gone on from; 0 = none.
        self.resumed_from = 0

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self.saved_at >= self.config.checkpoint_every_s and not self.writer.busy

    def save(self, step: int, history: dict[str, Any]) -> None:
        """Begins to save the state after `step` steps, once the checkpoint before is written."""
        self.wait(step)
        tensors = self.learner.tensors()
        layout = state.stored(tensors, self.rank.world_size)
        share = state.share(tensors, layout, self.rank.rank)
        self.writer.save(step, share, layout, self.learner.scalars(), history, self.learner.stable())
        self.saved_at = time.monotonic()

    def wait(self, step: int) -> None:
        """Until no rank is writing: rank 0 commits what all have written, and may take its time."""
        self.rank.trace.mark(step, "a checkpoint")
        try:
            self.writer.wait()
        except OSError as error:
            raise ProcessFailed(
                f"no checkpoint could be saved for {self.config.checkpoint_patience_s:g} s "
                f"(checkpoint_patience_s): {error}"
            ) from None
        self.rank.exchange(None, within_s=self.patience_s)

    def newest(self) -> int:
        """The step of the newest good checkpoint, of this launch or an earlier one; 0 = none."""
        return self.writer.newest() or self.resumed_from
