"""Saves checkpoints in the background: a thread copies, writes and commits during training."""

import json
import sys
import threading
import time
from collections.abc import Mapping, Set
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import torch.distributed as dist
from torch import Tensor

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import StoreDown, is_store_down
from vgp.data.tensor_file import Checksums, encode
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_manifest import Manifest, Part, Stored, part_name
from vgp.train.checkpoint.checkpoint_store import Store
from vgp.train.checkpoint.lease_holder import Fence
from vgp.train.checkpoint.snapshot import Snapshot


class Origin(NamedTuple):
    """The job of an attempt and the type of its devices; "" = unknown."""

    job: str = ""
    device: str = ""


UNKNOWN_ORIGIN = Origin()
#: Seconds for which an ending run waits for a checkpoint in progress.
_LAST_S = 10.0


class Writer:
    """A rank's writer of checkpoints. Rank 0 collects the parts of all ranks and commits.

    Args:
        launch_id: Part of the names of this attempt's files: equal on every rank, new for every attempt.
        origin: `job` and `device` of this attempt's manifests.
        fence: The file of the `Fence` that must be open for a commit; "" = none.
    """

    def __init__(self, store: Store, rendezvous: dist.Store, *, rank: int, world_size: int, run: int, launch_id: str,
                 settings: JsonObject, keep: int, patience_s: float,
                 fence: str = "", origin: Origin = UNKNOWN_ORIGIN):  # fmt: skip
        self.store, self.rendezvous = store, rendezvous
        self.rank, self.world_size, self.run, self.launch_id = rank, world_size, run, launch_id
        self.settings, self.keep, self.patience_s, self.origin = settings, keep, patience_s, origin
        self.fence = Fence(fence)
        self.thread: threading.Thread | None = None
        self.snapshot = Snapshot()
        #: Whether to copy every tensor at once, because a task has changed tensors that should be stable.
        self.at_once = False
        self.failing_since: float | None = None
        self.error: BaseException | None = None
        #: Step of the newest checkpoint that this attempt committed (and read back, unless hurried).
        self.durable_step: int | None = None
        #: On rank 0, seconds from the start of that save until it was durable.
        self.durable_after_s = 0.0

    @property
    def busy(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def save(
        self, step: int, share: Mapping[str, Tensor], layout: Mapping[str, Stored], scalars: JsonObject,
        history: JsonObject, stable: Set[str] = frozenset(), trainer: JsonObject | None = None,
        *, hurried: bool = False,
    ) -> None:  # fmt: skip
        """Starts to save this rank's share, after the previous save has ended.

        Args:
            stable: Names of tensors in the share that do not change until `wait_copied` returns; all others are copied
                at once.
            trainer: As `Manifest.trainer`.
            hurried: Whether the process is about to end and changes nothing any more. CPU tensors are then not copied,
                the checkpoint is not read back (the next start verifies it), and old checkpoints are not deleted.
        """
        self.wait()
        if hurried and all(tensor.device.type == "cpu" for tensor in share.values()):
            self.snapshot.lend(share)
        else:
            self.snapshot.begin(share, frozenset() if self.at_once else stable)
        manifest = partial(
            Manifest, run=self.run, step=step, job=self.origin.job, device=self.origin.device, settings=self.settings,
            tensors=dict(layout), scalars=scalars, history=history, trainer=trainer or {},
        )  # fmt: skip
        work = (step, manifest, hurried)
        self.thread = threading.Thread(target=self._run, args=work, name="checkpoint", daemon=True)
        self.thread.start()

    def wait_copied(self) -> None:
        """Waits until the stable tensors are copied; call it before they change."""
        self.snapshot.wait_copied()
        self.at_once = self.at_once or bool(self.snapshot.changed)

    def wait(self, within_s: float | None = None) -> bool:
        """Waits until no save is in progress, at most `within_s`; returns whether that is so.

        Raises the error of the last save if saves have failed for longer than `patience_s`.
        """
        self.wait_copied()
        if self.thread:
            self.thread.join(within_s)
        if self.error:
            raise self.error
        return not self.busy

    def newest(self) -> int | None:
        """Returns the step of the newest checkpoint of this attempt; waits up to 10 s for a save in progress."""
        if self.thread:
            self.snapshot.wait_copied()
            self.thread.join(_LAST_S)
        return self.durable_step

    def _run(self, step: int, manifest: "partial[Manifest]", hurried: bool) -> None:
        began = time.monotonic()
        try:
            self.snapshot.complete()
            self.rendezvous.set(self._key(step, self.rank), json.dumps(self._write_part(step)))
            if self.rank == 0:
                self._commit(manifest(parts=self._collect(step)), hurried)
                self.durable_after_s = time.monotonic() - began
        except BaseException as error:
            self._handle_failure(step, error)

    def _write_part(self, step: int) -> JsonObject:
        """Writes this rank's part; returns its description, or the error."""
        name = part_name(self.run, step, self.launch_id, self.rank)
        sums = Checksums()
        try:
            self.store.write(name, sums.pieces(encode(self.snapshot.copies)))
            self.snapshot.require_whole()
        except OSError as error:
            return {"error": f"{name}: {error}", "store_down": is_store_down(error)}
        blocks = sums.blocks if len(sums.blocks) > 1 else []
        return {"name": name, "bytes": sums.size, "crc32c": sums.crc32c, "blocks": blocks}

    def _collect(self, step: int) -> tuple[Part, ...]:
        """Collects the parts of all ranks. Raises OSError if one of them failed or is late."""
        keys = [self._key(step, rank) for rank in range(self.world_size)]
        try:
            self.rendezvous.wait(keys, timedelta(seconds=self.patience_s))
        except dist.DistStoreError:
            late = [str(rank) for rank, key in enumerate(keys) if not self.rendezvous.check([key])]
            raise OSError(f"rank {', '.join(late)} has not written its part for {self.patience_s:g} s") from None
        parts = [json.loads(self.rendezvous.get(key)) for key in keys]
        for key in keys:
            self.rendezvous.delete_key(key)
        for part in parts:
            if "error" in part:
                raise StoreDown(part["error"]) if part["store_down"] else OSError(part["error"])
        return tuple(Part(**part) for part in parts)

    def _key(self, step: int, rank: int) -> str:
        return f"checkpoint/{self.launch_id}/{step}/{rank}"

    def _commit(self, manifest: Manifest, hurried: bool) -> None:
        self.fence.require_open()
        if not self.store.commit(manifest.name, manifest.encode()):
            for part in manifest.parts:  # another attempt has committed this step, with equal bits
                self.store.delete(part.name)
        if not hurried:
            recovery.read_back(self.store, recovery.read_manifest(self.store, manifest.name))
        self.durable_step, self.failing_since = manifest.step, None
        if not hurried:
            recovery.prune(self.store, self.run, self.keep)

    def _handle_failure(self, step: int, error: BaseException) -> None:
        """Warns that the save failed; after `patience_s` of failures, keeps the error for `wait` to raise."""
        now = time.monotonic()
        self.failing_since = self.failing_since or now
        print(f"warning: checkpoint of step {step} was not saved: {error}", file=sys.stderr, flush=True)
        if now - self.failing_since > self.patience_s:
            self.error = error
