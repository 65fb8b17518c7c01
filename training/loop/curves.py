"""TensorBoard's curves beside the checkpoints; those for a bucket are written here and copied there as they grow."""

import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from training.storage import storage

#: Seconds between copies: Cloud Storage takes one write a second to the same object at most.
COPY_EVERY_S = 20.0


class Curves:
    """What `SummaryWriter` does, into any folder. A bucket that cannot be reached costs curves, never the run."""

    def __init__(self, folder: str, *, purge_step: int | None = None):
        from torch.utils.tensorboard import SummaryWriter  # heavy, and for one rank only

        self.remote = folder if storage.is_remote(folder) else ""
        self.scratch = tempfile.TemporaryDirectory(prefix="curves-") if self.remote else None
        self.here = Path(self.scratch.name if self.scratch else folder)
        self.writer = SummaryWriter(str(self.here), purge_step=purge_step)
        self.copied: dict[Path, int] = {}
        self.copied_at = time.monotonic()
        self.thread: threading.Thread | None = None

    def add_scalar(self, name: str, value: Any, step: int) -> None:
        self.writer.add_scalar(name, value, step)
        due = self.remote and time.monotonic() - self.copied_at > COPY_EVERY_S
        if due and not (self.thread and self.thread.is_alive()):
            self.copied_at = time.monotonic()
            self.thread = threading.Thread(target=self._copy, name="curves", daemon=True)
            self.thread.start()

    def close(self) -> None:
        self.writer.close()
        if self.scratch:
            if self.thread:
                self.thread.join()
            self._copy()
            self.scratch.cleanup()

    def _copy(self) -> None:
        try:
            self.writer.flush()
            for path in sorted(self.here.iterdir()):
                data = path.read_bytes()
                if self.copied.get(path) != len(data):
                    storage.overwrite(f"{self.remote}/{path.name}", data)
                    self.copied[path] = len(data)
        except OSError as error:
            print(f"warning: curves were not copied: {error}", file=sys.stderr, flush=True)
