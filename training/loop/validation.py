"""The validation loss: a fixed set of held-out batches, assigned to the ranks."""

import math

from torch import Tensor

from training.data.manifest import Manifest
from training.data.rows import open_rows
from training.loop.batches import held_out, tensors
from training.loop.learner import Learner, gather
from training.loop.request import TrainingRequest
from training.processes.rank import Rank

_BATCHES = 64


class Validation:
    """This rank's every n-th batch of the set; empty if the data has no validation split."""

    def __init__(self, request: TrainingRequest, data: Manifest, rank: Rank):
        """Ranks that share one model (FSDP2) can only compute together: one with fewer batches than rank 0 gets a
        filler, whose loss does not count."""
        plan, self.rank = request.plan, rank
        self.sizes: list[int] = []
        self.batches: list[dict[str, Tensor]] = []
        if not data.rows("validation"):
            return
        rows = open_rows(request.data, "validation")
        chosen = held_out(rows, max(1, plan.global_batch_size // plan.microbatches), _BATCHES)
        self.sizes = [len(index) for index in chosen]
        own = chosen[rank.rank :: rank.world_size]
        if request.config.strategy == "fsdp" and len(own) < len(chosen[:: rank.world_size]):
            own.append(chosen[0])
        self.batches = [tensors(rows.take(index), rank.device) for index in own]

    def loss(self, learner: Learner) -> float:
        """Mean over all rows of the set, the same on every rank, in the same order for every world size."""
        own = [loss.item() for loss in learner.losses(self.batches)]
        count, world_size = len(self.sizes), self.rank.world_size
        everyone = gather(own, -(-count // world_size))
        weighted = [float(everyone[i % world_size, i // world_size]) * n for i, n in enumerate(self.sizes)]
        return math.fsum(weighted) / sum(self.sizes)
