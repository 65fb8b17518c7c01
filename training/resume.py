"""Which checkpoint a run goes on from: the newest that every rank finds whole. Ranks look together."""

import sys
from collections.abc import Mapping
from typing import Any

from training.checkpoint import recovery
from training.checkpoint.manifest import Manifest
from training.checkpoint.saved import Saved
from training.checkpoint.store import Store, store_at
from training.errors import ProcessFailed
from training.learner import Learner, gather
from training.rank import Rank


def newest(argument: Mapping[str, Any], rank: Rank, learner: Learner, patience_s: float) -> Manifest | None:
    """The newest checkpoint that verifies, its state taken by `learner`; None without one.

    Raises:
        ProcessFailed: the store could not be reached for `patience_s` seconds.
    """
    try:
        return _newest(argument, rank, learner, store_at(argument["resume_from"], deadline_s=patience_s))
    except ConnectionError as error:
        raise ProcessFailed(f"{error} (checkpoint_patience_s={patience_s:g})") from None


def _newest(argument: Mapping[str, Any], rank: Rank, learner: Learner, source: Store) -> Manifest | None:
    number = argument["resume_run"]
    for name in rank.agree(recovery.committed(source, number) if rank.leads and number >= 0 else []):
        found, damage = _verified(source, name, rank)
        damaged = gather([float(bool(damage))], 1).flatten().tolist()
        if not any(damaged):
            assert found
            _restore(learner, Saved(source, found))
            return found
        damage = rank.agree(damage, by=damaged.index(1.0))
        if rank.leads:
            print(f"checkpoint passed over: {damage}", file=sys.stderr, flush=True)
    return None


def _verified(source: Store, name: str, rank: Rank) -> tuple[Manifest | None, str]:
    """The manifest, and what is wrong with it or with this rank's every n-th of its parts."""
    try:
        found = recovery.read_manifest(source, name)
        for part in found.parts[rank.rank :: rank.world_size]:
            recovery.verify_part(source, part)
        return found, ""
    except recovery.Damaged as damage:
        return None, str(damage)


def _restore(learner: Learner, saved: Saved) -> None:
    try:
        learner.restore(saved)
    except recovery.Damaged as damage:
        raise ProcessFailed(f"{damage}: it was whole a moment ago. Start again.") from None
