"""A training whose meetings note which losses they have read."""

from typing import Any

import torch._dynamo  # noqa: F401 - before `digits`, which looks for it
from faulty import prepared

from vgp.train.loop import monitor, trainer
from vgp.train.processes.rank import Rank


def run(argument: dict[str, Any], rank: Rank) -> dict[str, Any]:
    """Trains with a meeting after every step; returns by step done the steps whose losses were read there."""
    read: list[tuple[int, int]] = []
    newest = 0

    class Noted(monitor.Snapshot):
        def __init__(self, *args: Any, **named: Any):
            super().__init__(*args, **named)
            nonlocal newest
            newest = self.step

        def read(self) -> list[float]:
            read.append((newest, self.step))
            return super().read()

    monitor.Snapshot, monitor._MEETING_EVERY_S = Noted, 0.0  # type: ignore[misc]
    figures = trainer.run(prepared(argument), rank)
    return {"read": read, "figures": figures}
