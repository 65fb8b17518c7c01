"""The validation loss: a fixed set of held-out batches, dealt to the ranks."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from training.data.manifest import Manifest
from training.data.rows import open_rows
from training.loop.batches import held_out, tensors
from training.loop.learner import Learner, gather
from training.loop.order import Plan
from training.processes.rank import Rank

_BATCHES = 64


class Validation:
    """This rank's every n-th batch of the set; empty if the data has no validation split."""

    def __init__(self, argument: Mapping[str, Any], data: Manifest, plan: Plan, rank: Rank, *, shared_model: bool):
        """`shared_model`: ranks share one model (FSDP2) and can only compute together.

        One with fewer batches than rank 0 then gets a filler, whose loss does not count.
        """
        self.rank = rank
        self.sizes: list[int] = []
        self.batches: list[dict[str, Tensor]] = []
        if not data.rows("validation"):
            return
        rows = open_rows(argument["data"], "validation")
        chosen = held_out(rows, max(1, plan.global_batch_size // plan.microbatches), _BATCHES)
        self.sizes = [len(index) for index in chosen]
        own = chosen[rank.rank :: rank.world_size]
        if shared_model and len(own) < len(chosen[:: rank.world_size]):
            own.append(chosen[0])
        self.batches = [tensors(rows.take(index), rank.device) for index in own]

    def loss(self, learner: Learner) -> float:
        """Mean over all rows of the set, the same on every rank, in the same order for every world size."""
        own = [loss.item() for loss in learner.losses(self.batches)]
        count, world_size = len(self.sizes), self.rank.world_size
        everyone = gather(own, -(-count // world_size))
        weighted = [float(everyone[i % world_size, i // world_size]) * n for i, n in enumerate(self.sizes)]
        return math.fsum(weighted) / sum(self.sizes)
