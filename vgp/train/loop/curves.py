"""TensorBoard's curves beside the checkpoints; those for a bucket are written here and copied there as they grow.

A run that goes on writes a new file, whose first record has TensorBoard drop what older files hold of later steps: each
step is shown once, however often the run was killed.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from vgp.base.storage import storage

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
