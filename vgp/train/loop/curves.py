"""TensorBoard's curves beside the checkpoints; those for a bucket are written here and copied there as they grow.

A run that goes on writes a new file, whose first record has TensorBoard drop what older files hold of later steps: each
step is shown once, however often the run was killed.
"""

import json
import math
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from vgp.base.documents import json_text
from vgp.base.documents.json_text import JsonObject
from vgp.base.storage import storage
from vgp.data.bundle import Point
from vgp.train.loop.order import Plan

#: Seconds between copies: Cloud Storage takes one write a second to the same object at most.
COPY_EVERY_S = 20.0
#: What is shown as it comes grows thinner: a point after every so manieth part of the time that the run has taken.
_POINTS = 2000


class Curves:
    """What `SummaryWriter` does, into any folder. Where they cannot be written that costs curves, never the run."""

    def __init__(self, folder: str, first_step: int):
        """
        Args:
            first_step: The steps that are done; points up to there stay, and what an older attempt wrote of later
                ones is not shown.
        """
        from torch.utils.tensorboard import SummaryWriter  # heavy, and for one rank only

        self.remote = folder if storage.is_remote(folder) else ""
        self.scratch = tempfile.TemporaryDirectory(prefix="curves-") if self.remote else None
        self.here = Path(self.scratch.name if self.scratch else folder)
        #: None once they cannot be written any more.
        self.writer: SummaryWriter | None = None
        self.copied: dict[Path, int] = {}
        self.began = self.shown_at = self.copied_at = time.monotonic()
        self.thread: threading.Thread | None = None
        try:
            # Points of the step itself were written before its checkpoint: what begins anew is the one after it.
            self.writer = SummaryWriter(str(self.here), purge_step=first_step + 1 if first_step else 0)
        except OSError as error:
            self._give_up(error)

    @property
    def due(self) -> bool:
        """Whether the last point is old enough for another, so that a run of days leaves a file of megabytes."""
        now = time.monotonic()
        return now - self.shown_at >= (now - self.began) / _POINTS

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        """A point of each curve, after `step` steps."""
        if not self.writer:
            return
        self.shown_at = time.monotonic()
        try:
            for name, value in scalars.items():
                self.writer.add_scalar(name, value, step)
        except OSError as error:
            return self._give_up(error)
        if time.monotonic() - self.copied_at > COPY_EVERY_S:
            self._begin_to_copy()

    def flush(self) -> None:
        """Hands all points over to the system; for a bucket begins to copy them. Before a checkpoint holds their step:
        a run that goes on from it does not write them again."""
        if not self.writer:
            return
        try:
            self.writer.flush()
        except OSError as error:
            return self._give_up(error)
        self._begin_to_copy()

    def close(self) -> None:
        try:
            if self.writer:
                self.writer.close()
        except OSError as error:
            self._give_up(error)
        if self.scratch:
            if self.thread:
                self.thread.join()
            self._copy()
            self.scratch.cleanup()

    def _begin_to_copy(self) -> None:
        if self.remote and not (self.thread and self.thread.is_alive()):
            self.copied_at = time.monotonic()
            self.thread = threading.Thread(target=self._copy, name="curves", daemon=True)
            self.thread.start()

    def _copy(self) -> None:
        try:
            if self.writer:
                self.writer.flush()
            for path in sorted(self.here.iterdir()):
                data = path.read_bytes()
                if self.copied.get(path) != len(data):
                    storage.overwrite(f"{self.remote}/{path.name}", data)
                    self.copied[path] = len(data)
        except OSError as error:
            print(f"warning: curves were not copied: {error}", file=sys.stderr, flush=True)

    def _give_up(self, error: OSError) -> None:
        self.writer = None
        print(f"warning: no more curves for TensorBoard: {error}", file=sys.stderr, flush=True)


# ---- the learning curve: what every step's loss was, thinned to points, and exact across a resume


#: Points of the curve besides the ends of epochs.
_HISTORY_POINTS = 200


class _HistoryState(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    points: list[Point]
    total: float
    count: int = Field(ge=0)


class History:
    """Collects mean losses step by step. Its `state` is JSON and goes into every checkpoint.

    `factor` gives each step's share of the peak learning rate.
    """

    def __init__(self, plan: Plan, learning_rate: float, factor: Callable[[int], float]):
        self.plan, self.peak, self.factor = plan, learning_rate, factor
        self.every = math.ceil(plan.steps / _HISTORY_POINTS)
        self.points: list[JsonObject] = []
        self.total, self.count = 0.0, 0

    def go_on(self, state: JsonObject, step: int) -> None:
        """Takes the `state` of a checkpoint after `step` steps. Raises ValueError if it cannot be that."""
        parsed = json_text.parse_model(_HistoryState, json.dumps(state).encode())
        covered = (parsed.points[-1].step if parsed.points else 0) + parsed.count
        if covered != step:
            raise ValueError(f"its learning curve ends at step {covered}, not {step}")
        self.points = [point.model_dump() for point in parsed.points]
        self.total, self.count = parsed.total, parsed.count

    @property
    def state(self) -> JsonObject:
        return {"points": list(self.points), "total": self.total, "count": self.count}

    def add(self, step: int, loss: float) -> None:
        """The loss of the step numbered `step`, from 0."""
        self.total += loss
        self.count += 1
        if (step + 1) % self.every == 0 or self.plan.ends_epoch(step):
            self._point(step)

    def validated(self, step: int, loss: float | None, metrics: dict[str, float]) -> None:
        """What was measured after `step` steps, the last of which was added last; None = the loss was no number."""
        if not self.points or self.points[-1]["step"] != step:
            self._point(step - 1)
        self.points[-1] |= {"validation_loss": loss, "metrics": metrics}

    def learning_rate(self, step: int) -> float:
        return self.peak * self.factor(step)

    def _point(self, step: int) -> None:
        self.points.append(
            {"step": step + 1, "epoch": round(self.plan.epoch(step + 1), 6), "loss": self.total / self.count,
             "validation_loss": None, "metrics": {}, "learning_rate": self.learning_rate(step)}
        )  # fmt: skip
        self.total, self.count = 0.0, 0
