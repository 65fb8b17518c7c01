"""Which checkpoint a run goes on from: the newest that is whole and finite. Ranks read it together, and once.

It is verified while it is read, so a damaged one is in the model before it is known: `Learner.spoilt`. Ranks that wait
for one that reads do so without a collective, whose timeout would end them.
"""

import sys

from vgp.base.exits import StoreDown, UserError
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.manifest import BLOCK, Manifest
from vgp.train.checkpoint.reading import raise_first
from vgp.train.checkpoint.saved import Saved
from vgp.train.checkpoint.store import Store, store_at
from vgp.train.loop.learner import Learner
from vgp.train.loop.request import TrainingRequest
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
