"""What makes a release happen once: the same model, tested in the same way against the same champion on the same data,
has the same key, whichever run asks and however often."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from vgp.base.storage import download, storage
from vgp.decision.decision import Decision
from vgp.protocol import pin_store as store
from vgp.protocol.pins import ChampionPins
from vgp.registry.documents import VersionFile


def of_files(folder: str | Path) -> dict[str, VersionFile]:
    """What the files below a model's folder are, here or in a bucket, by their names from it."""
    root = storage.uri(folder)
    described = {}
    for file in storage.below(root):
        with download.local_copy(file.path) as path, open(path, "rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        described[file.path.removeprefix(f"{root}/")] = VersionFile(bytes=file.bytes, sha256=sha256)
    return described


def of(model: Mapping[str, VersionFile], champion: ChampionPins | None, data: str, decision: Decision) -> str:
    """The key of a release.

    Args:
        model: The challenger's files.
        champion: What it was compared with; None = no champion.
        data: Fingerprint of the prepared data.
        decision: Its settings count: another margin is another question, and so is a promotion by the owner's word.
    """
    asked: list[float | str] = [decision.margin, decision.confidence, decision.nights]
    asked += [decision.approve] if decision.overrides else []
    text = json.dumps([weights(model), _of_champion(champion), data, asked])
    return hashlib.sha256(text.encode()).hexdigest()


def weights(model: Mapping[str, VersionFile]) -> dict[str, str]:
    """What tells two models apart: the checksums of their files, without what the registry put beside them."""
    return {name: file.sha256 for name, file in sorted(model.items()) if not name.startswith(f"{ABOUT}/")}


def _of_champion(champion: ChampionPins | None) -> str:
    """A version by its key, and by what is the matter with its files; another folder by its files, the same in every
    cache epoch."""
    if champion is None:
        return ""
    if champion.key and champion.problem:
        return f"{champion.key} gone"
    return champion.key or store.digest(champion.model_copy(update={"epoch": 0}))


#: The folder of a version's files that holds what is told of the model: report, decision, figures.
ABOUT = "about"
