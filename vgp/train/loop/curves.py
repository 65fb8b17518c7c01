"""Writes TensorBoard curves and collects the learning curve. Curves for a bucket are written locally and copied.

A resumed run writes a new file. Its first record makes TensorBoard drop later steps of older files, so each step is
shown once, however often the run was killed.
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
from vgp.train.loop.sample_order import Plan

#: Seconds between copies: Cloud Storage allows one write a second to an object.
COPY_EVERY_S = 20.0
#: A new point is due after this fraction (1/2000) of the time that the run has taken.
_POINTS = 2000


class Curves:
    """A `SummaryWriter` for any folder. A failed write ends the curves with a warning, never the run."""

    def __init__(self, folder: str, first_step: int):
        """
        Args:
            first_step: Number of completed steps. TensorBoard drops points of later steps from older attempts.
        """
        from torch.utils.tensorboard import SummaryWriter  # heavy, and for one rank only

        self.remote = folder if storage.is_remote(folder) else ""
        self.scratch = tempfile.TemporaryDirectory(prefix="curves-") if self.remote else None
        self.here = Path(self.scratch.name if self.scratch else folder)
        #: None after a failed write.
        self.writer: SummaryWriter | None = None
        self.copied: dict[Path, int] = {}
        self.began = self.shown_at = self.copied_at = time.monotonic()
        self.thread: threading.Thread | None = None
        try:
            # Points of the step itself were written before its checkpoint, so new points begin after it.
            self.writer = SummaryWriter(str(self.here), purge_step=first_step + 1 if first_step else 0)
        except OSError as error:
            self._give_up(error)

    @property
    def due(self) -> bool:
        """Whether a new point is due; limits the file of a long run to megabytes."""
        now = time.monotonic()
        return now - self.shown_at >= (now - self.began) / _POINTS

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        """Adds a point to each curve, after `step` steps."""
        if not self.writer:
            return
        self.shown_at = time.monotonic()
        try:
            for name, value in scalars.items():
                self.writer.add_scalar(name, value, step)
        except OSError as error:
            return self._give_up(error)
        if time.monotonic() - self.copied_at > COPY_EVERY_S:
            self._start_copy()

    def flush(self) -> None:
        """Flushes all points, and for a bucket starts to copy them.

        Call it before a checkpoint of their step: a run resumed from it does not write them again.
        """
        if not self.writer:
            return
        try:
            self.writer.flush()
        except OSError as error:
            return self._give_up(error)
        self._start_copy()

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

    def _start_copy(self) -> None:
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
            print(f"warning: TensorBoard curves were not copied: {error}", file=sys.stderr, flush=True)

    def _give_up(self, error: OSError) -> None:
        self.writer = None
        print(f"warning: TensorBoard curves end here: {error}", file=sys.stderr, flush=True)


#: Points of the curve besides the ends of epochs.
_HISTORY_POINTS = 200


class _HistoryState(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    points: list[Point]
    total: float
    count: int = Field(ge=0)


class History:
    """The learning curve: mean losses between points. Its `state` is JSON and part of every checkpoint.

    Args:
        factor: Returns each step's share of the peak learning rate.
    """

    def __init__(self, plan: Plan, learning_rate: float, factor: Callable[[int], float]):
        self.plan, self.peak, self.factor = plan, learning_rate, factor
        self.every = math.ceil(plan.steps / _HISTORY_POINTS)
        self.points: list[JsonObject] = []
        self.total, self.count = 0.0, 0

    def go_on(self, state: JsonObject, step: int) -> None:
        """Restores the `state` of a checkpoint after `step` steps. Raises ValueError if it is implausible."""
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
        """Adds the loss of the step numbered `step`, from 0."""
        self.total += loss
        self.count += 1
        if (step + 1) % self.every == 0 or self.plan.ends_epoch(step):
            self._add_point(step)

    def validated(self, step: int, loss: float | None, metrics: dict[str, float]) -> None:
        """Adds a validation after `step` steps, which must all have been added; None = the loss was not finite."""
        if not self.points or self.points[-1]["step"] != step:
            self._add_point(step - 1)
        self.points[-1] |= {"validation_loss": loss, "metrics": metrics}

    def learning_rate(self, step: int) -> float:
        return self.peak * self.factor(step)

    def _add_point(self, step: int) -> None:
        self.points.append(
            {"step": step + 1, "epoch": round(self.plan.epoch(step + 1), 6), "loss": self.total / self.count,
             "validation_loss": None, "metrics": {}, "learning_rate": self.learning_rate(step)}
        )  # fmt: skip
        self.total, self.count = 0.0, 0
