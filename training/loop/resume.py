"""Which checkpoint a run goes on from: the newest that every rank finds whole and finite. Ranks look together.

They meet without a collective, whose timeout would end those that have read their share while another still reads.
"""

import sys

from training.checkpoint import recovery
from training.checkpoint.manifest import Manifest
from training.checkpoint.saved import Saved
from training.checkpoint.store import Store, store_at
from training.errors import ProcessFailed, UserError
from training.loop.learner import Learner
from training.loop.request import TrainingRequest
from training.processes.rank import SLOWEST_BYTES_PER_S, Rank


def newest(request: TrainingRequest, rank: Rank, learner: Learner) -> Manifest | None:
    """The newest checkpoint that verifies, its state taken by `learner`; None without one.

    Raises:
        ProcessFailed: the store could not be reached for `checkpoint_patience_s` seconds.
        UserError: checkpoints are whole, but none of them holds a state that training can go on from.
    """
    patience_s = request.config.checkpoint_patience_s
    source = store_at(request.start.folder, deadline_s=patience_s)
    try:
        return _newest(request.start.run, rank, learner, source, patience_s + request.config.hang_after_s)
    except ConnectionError as error:
        raise ProcessFailed(f"{error} (checkpoint_patience_s={patience_s:g})") from None


def _newest(run: int, rank: Rank, learner: Learner, source: Store, within_s: float) -> Manifest | None:
    names = rank.exchange(recovery.committed(source, run) if rank.leads and run >= 0 else [], within_s=within_s)[0]
    diverged = ""
    for name in names:
        manifest, damage = _verified(source, name, rank)
        longest_s = within_s + sum(part.bytes for part in (manifest.parts if manifest else ())) / SLOWEST_BYTES_PER_S
        damages = rank.exchange(damage, within_s=longest_s)
        if not any(damages):
            assert manifest
            _restore(learner, Saved(source, manifest))
            damages = rank.exchange(_divergence(name, learner), within_s=longest_s)
            if not any(damages):
                return manifest
            diverged = next(filter(None, damages))
        if rank.leads:
            print(f"checkpoint passed over: {next(filter(None, damages))}", file=sys.stderr, flush=True)
    if diverged:
        raise UserError(
            f"no checkpoint in {source} can be gone on from: {diverged}. Start anew with resume=never, and a lower "
            "learning_rate, or give another folder."
        )
    return None


def _verified(source: Store, name: str, rank: Rank) -> tuple[Manifest | None, str]:
    """The manifest, and what is wrong with it or with this rank's every n-th of its parts."""
    try:
        manifest = recovery.read_manifest(source, name)
        for part in manifest.parts[rank.rank :: rank.world_size]:
            recovery.verify_part(source, part)
        return manifest, ""
    except recovery.Damaged as damage:
        return None, str(damage)


def _restore(learner: Learner, saved: Saved) -> None:
    try:
        learner.restore(saved)
    except recovery.Damaged as damage:
        raise ProcessFailed(f"{damage}: it was whole a moment ago. Start again.") from None


def _divergence(name: str, learner: Learner) -> str:
    """What in the restored state is not finite; "" if all is."""
    broken = sorted(learner.broken())
    return f"{name} holds values that are not finite ({', '.join(broken[:3])}): training had diverged" if broken else ""
