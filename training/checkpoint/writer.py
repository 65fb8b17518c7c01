"""Saves checkpoints in the background: the loop stalls for a copy in memory, a thread does the rest."""

import json
import sys
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import google_crc32c
import torch
import torch.distributed as dist
from torch import Tensor

from training.checkpoint import recovery
from training.checkpoint.manifest import Manifest, Part, Stored, part_name
from training.checkpoint.state import encode
from training.checkpoint.store import Store

_CHUNK = 1 << 20


class Writer:
    """One rank's side of saving. Rank 0 collects what the others wrote, and commits.

    Args:
        token: Names this attempt's parts; the same on every rank, different at every start.
    """

    def __init__(self, store: Store, rendezvous: dist.Store, *, rank: int, world_size: int, run: int, token: str,
                 settings: dict[str, Any], keep: int, patience_s: float):  # fmt: skip
        self.store, self.rendezvous = store, rendezvous
        self.rank, self.world_size, self.run, self.token = rank, world_size, run, token
        self.settings, self.keep, self.patience_s = settings, keep, patience_s
        self.thread: threading.Thread | None = None
        self.copies: dict[str, Tensor] = {}
        self.failing_since: float | None = None
        self.error: BaseException | None = None
        #: Step of the newest checkpoint that this attempt committed and read back.
        self.durable_step: int | None = None

    @property
    def busy(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def save(self, step: int, share: Mapping[str, Tensor], layout: Mapping[str, Stored], scalars: dict[str, Any],
             history: dict[str, Any]) -> None:  # fmt: skip
        """Copies this rank's share and returns; waits first if the checkpoint before is still being written."""
        self.wait()
        self._copy(share)
        work = (step, dict(layout), scalars, history)
        self.thread = threading.Thread(target=self._guarded, args=work, name="checkpoint", daemon=True)
        self.thread.start()

    def wait(self) -> None:
        """Blocks until nothing is being written. Raises what went wrong for longer than the patience."""
        if self.thread:
            self.thread.join()
        if self.error:
            raise self.error

    def _copy(self, share: Mapping[str, Tensor]) -> None:
        """Into buffers that are kept: a fresh page costs more than the copy."""
        for name, tensor in share.items():
            held = self.copies.get(name)
            if held is None or held.shape != tensor.shape or held.dtype != tensor.dtype:
                held = self.copies[name] = torch.empty(
                    tensor.shape, dtype=tensor.dtype, pin_memory=tensor.device.type == "cuda"
                )
            held.copy_(tensor, non_blocking=True)
        for name in self.copies.keys() - share.keys():
            del self.copies[name]
        if torch.cuda.is_initialized():
            torch.cuda.current_stream().synchronize()

    def _guarded(self, step: int, *work: Any) -> None:
        try:
            self._publish(step, self._write_part(step))
            if self.rank == 0:
                self._commit(step, *work)
        except BaseException as error:
            self._failed(step, error)

    def _write_part(self, step: int) -> dict[str, Any]:
        """This rank's part, or why it could not be written."""
        name = part_name(self.run, step, self.token, self.rank)
        checksum, size = google_crc32c.Checksum(), 0
        buffers = encode(self.copies)

        def chunks() -> Any:
            nonlocal size
            for buffer in buffers:
                for start in range(0, len(buffer), _CHUNK):
                    piece = buffer[start : start + _CHUNK]
                    checksum.update(bytes(piece))
                    size += len(piece)
                    yield piece

        try:
            self.store.write(name, chunks())
        except OSError as error:
            return {"error": f"{name}: {error}"}
        return {"name": name, "bytes": size, "crc32c": int.from_bytes(checksum.digest(), "big")}

    def _publish(self, step: int, part: dict[str, Any]) -> None:
        self.rendezvous.set(self._key(step, self.rank), json.dumps(part))

    def _collect(self, step: int) -> tuple[Part, ...]:
        """What every rank wrote. Raises OSError if one could not."""
        keys = [self._key(step, rank) for rank in range(self.world_size)]
        self.rendezvous.wait(keys, timedelta(seconds=self.patience_s))
        parts = [json.loads(self.rendezvous.get(key)) for key in keys]
        for key in keys:
            self.rendezvous.delete_key(key)
        for part in parts:
            if "error" in part:
                raise OSError(part["error"])
        return tuple(Part(**part) for part in parts)

    def _key(self, step: int, rank: int) -> str:
        return f"checkpoint/{self.token}/{step}/{rank}"

    def _commit(self, step: int, layout: dict[str, Stored], scalars: dict[str, Any], history: dict[str, Any]) -> None:
        manifest = Manifest(run=self.run, step=step, settings=self.settings, parts=self._collect(step),
                            tensors=layout, scalars=scalars, history=history)  # fmt: skip
        if not self.store.commit(manifest.name, manifest.encode()):
            for part in manifest.parts:  # another attempt committed this step: same bits, theirs stand
                self.store.delete(part.name)
        recovery.verify(self.store, recovery.read_manifest(self.store, manifest.name))
        self.durable_step, self.failing_since = step, None
        recovery.retire(self.store, self.run, self.keep)

    def _failed(self, step: int, error: BaseException) -> None:
        """Training goes on without this checkpoint; the next is tried as usual, until the patience ends."""
        now = time.monotonic()
        self.failing_since = self.failing_since or now
        print(f"warning: checkpoint of step {step} was not saved: {error}", file=sys.stderr, flush=True)
        if now - self.failing_since > self.patience_s:
            self.error = error
