"""Which checkpoint a run goes on from: the newest that is whole and finite. Ranks read it together, and once.

It is verified while it is read, so a damaged one is in the model before it is known: `Learner.spoilt`. Ranks that wait
for one that reads do so without a collective, whose timeout would end them.
"""

import sys

from vgp.base.exits import StoreDown, UserError
from vgp.base.storage.files import CHECKSUM_BLOCK as BLOCK
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.manifest import Manifest
from vgp.train.checkpoint.manifest import Manifest as Checkpoint
from vgp.train.checkpoint.reading import raise_first
from vgp.train.checkpoint.saved import Saved
from vgp.train.checkpoint.store import Store, store_at
from vgp.train.config import TrainConfig
from vgp.train.loop.learner import Learner
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import SLOWEST_BYTES_PER_S, Rank


def newest(request: TrainingRequest, rank: Rank, learner: Learner) -> Manifest | None:
    """The newest checkpoint that verifies, its state taken by `learner`; None without one.

    Raises:
        StoreDown: the store could not be reached for `checkpoint_patience_s` seconds.
        UserError: checkpoints are whole, but none of them holds a state that training can go on from.
    """
    patience_s = request.config.checkpoint_patience_s
    source = store_at(request.start.folder, deadline_s=patience_s)
    try:
        return _newest(request.start.run, rank, learner, source, patience_s + request.config.hang_after_s)
    except StoreDown as error:
        raise StoreDown(f"{error} (checkpoint_patience_s={patience_s:g})") from None


def _newest(run: int, rank: Rank, learner: Learner, source: Store, within_s: float) -> Manifest | None:
    names = rank.exchange(recovery.committed(source, run) if rank.leads and run >= 0 else [], within_s=within_s)[0]
    diverged = ""
    for name in names:
        try:
            manifest = _manifest(source, name, rank, within_s)
            learner.restore(Saved(source, manifest, rank, within_s=within_s + BLOCK / SLOWEST_BYTES_PER_S))
            why = next(filter(None, rank.exchange(_divergence(name, learner), within_s=within_s)), "")
            if not why:
                return manifest
            diverged = why
        except recovery.Damaged as damage:
            why = str(damage)
        if rank.leads:
            print(f"checkpoint passed over: {why}", file=sys.stderr, flush=True)
    if diverged:
        raise UserError(
            f"no checkpoint in {source} can be gone on from: {diverged}. Start anew with resume=never, and a lower "
            "learning_rate, or give another folder."
        )
    return None


def _manifest(source: Store, name: str, rank: Rank, within_s: float) -> Manifest:
    """Read by one rank. Raises Damaged, on every rank."""
    text = damage = ""
    if rank.leads:
        try:
            text = recovery.read_manifest(source, name).encode().decode()
        except recovery.Damaged as error:
            damage = str(error)
    text, damage = rank.exchange([text, damage], within_s=within_s)[0]
    raise_first([damage])
    return Manifest.decode(text.encode())


def _divergence(name: str, learner: Learner) -> str:
    """What in the restored state is not finite; "" if all is."""
    broken = sorted(learner.broken())
    return f"{name} holds values that are not finite ({', '.join(broken[:3])}): training had diverged" if broken else ""


# ---- what is another result, where a run goes on with other processes or on another kind of device: said when it does


def landing_difference(
    checkpoint: Checkpoint, config: TrainConfig, world_size: int, device: str, microbatches: int
) -> str:
    """One sentence on what differs from a run that stayed where it was; "" where nothing does.

    Args:
        device: Its kind, as `Checkpoint.device` tells that of the run before.
    """
    before, moved = len(checkpoint.parts), bool(checkpoint.device) and checkpoint.device != device
    if before == world_size and not moved:
        return ""
    kinds = f"on {checkpoint.device}" if moved else ""
    went = f"saved by {processes(before)}{f' {kinds}' if kinds else ''}, gone on with by {processes(world_size)}"
    head = went + (f" on {device}" if moved else "")
    uneven = microbatches % world_size
    slow = (
        f"; {microbatches} microbatches on {world_size}: some compute one more, and the others wait" if uneven else ""
    )
    return f"{head}: {_consequence(config.exact, moved)}{slow}"


def _consequence(exact: bool, moved: bool) -> str:
    if exact and not moved:
        return "the same bits as if nothing had happened (exact=true)"
    if exact:
        return "sums are in the same order, but another kind of device may round them differently"
    return "sums of gradients are in another order, so last digits differ from those of a run that stayed"


def processes(count: int) -> str:
    return f"{count} process" if count == 1 else f"{count} processes"
