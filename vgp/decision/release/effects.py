"""What a release does to the record, as one function from a record to the next: it is written whole, or not at all.

A process that is killed before leaves a record that knows nothing of it, and one that is killed after has done all.

What makes a release happen once: the same model, tested in the same way against the same champion on the same data,
has the same key, whichever run asks and however often.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from vgp.base.storage import download, storage
from vgp.decision.decision import Approval, Decision
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins
from vgp.registry import changes, tests_spent
from vgp.registry.documents import CHAMPION, Record, Spent, Version, VersionFile, now

#: What begins the reason in the history why a better model became no version, or not the champion.
NOT_REGISTERED, NOT_CHAMPION = "Not registered: ", " Not champion: "
SIMPLER = "a simpler model is better"


@dataclass(frozen=True)
class Release:
    """What the gate said of a challenger, and what it is."""

    #: Without a number; its `champion` is the version that it was compared with.
    version: Version
    promote: bool
    approve: Approval
    #: Who releases it: the run.
    who: str
    #: What the test takes of a year's error; None = nothing: no test, or no champion that it could have replaced.
    level: float | None = None
    #: Whether there was anything to decide by.
    decided: bool = True
    #: Whether it waits for a person by the gate's word: a simple model is better still.
    candidate: bool = False
    #: That no model is promoted by luck, over all tests of a year together: what the levels of a year share.
    confidence: float = 0.95

    @property
    def key(self) -> str:
        return self.version.key

    def with_files(self, files: Mapping[str, VersionFile]) -> "Release":
        """The same, with these files of the version."""
        return replace(self, version=self.version.model_copy(update={"files": dict(files)}))

    @property
    def registers(self) -> bool:
        """Whether the model becomes a version; what nothing could judge does so for a person to look at."""
        return self.promote or self.candidate or (not self.decided and self.approve == "manual")


def done(record: Record, key: str) -> bool:
    """Whether a release with that key is in the record."""
    return record.keyed(key) is not None or record.event("kept", key) is not None


def applied(record: Record, release: Release) -> Record:
    """The record after the release; the same record if it is in there already.

    A better model reigns only if the champion that it was compared with still does: what it is against another one,
    nothing tells. One that a simple model beats waits for a person. A model that people took back or rejected stays a
    matter of people. One that is better by a test for which a year's error has nothing left waits for a person, and the
    test takes nothing, whatever it found: it could promote nothing by luck.
    """
    if done(record, release.key):
        return record
    why, used_up = release.version.reason, _used_up(record, release)
    if not release.registers:
        record = changes.keep(record, who=release.who, why=why, key=release.key) if release.decided else record
    elif taken_back := _taken_back(record, release.version):
        record = changes.keep(record, who=release.who, why=f"{NOT_REGISTERED}{taken_back}.", key=release.key)
    else:
        record = _registered(record, release, why, used_up)
    if release.level is None:
        return record
    level, outcome = 0.0 if used_up else release.level, "promote" if release.promote else "keep"
    outcome = "candidate" if release.candidate else outcome
    return changes.spend(record, Spent(
        key=release.key, at=now(), level=level, version=release.version.champion, outcome=outcome,
    ))  # fmt: skip


def _registered(record: Record, release: Release, why: str, used_up: str) -> Record:
    waits = release.approve == "manual" or release.candidate or bool(used_up)
    version = release.version.model_copy(update={"state": "candidate" if waits else "registered"})
    expected, reigns = version.champion, record.aliases.get(CHAMPION)
    if release.candidate:
        why = f"{why}{NOT_CHAMPION}{SIMPLER}."
    elif used_up:
        why = f"{why}{NOT_CHAMPION}{used_up}."
    elif not waits and reigns != expected:
        why = f"{why}{NOT_CHAMPION}compared with {compared(expected)}, while the champion is {named(reigns)} by now."
    record = changes.register(record, version, who=release.who, why=why)
    registered = record.keyed(release.key)
    assert registered
    if waits or reigns != expected:
        return record
    return changes.promote(record, registered.number, expected=expected, who=release.who, why=why, key=release.key)


def _taken_back(record: Record, version: Version) -> str:
    """Why a model with these weights is no longer a machine's to promote, as a clause; "" if it is."""
    weights = weights_key(version.files)
    for known in reversed(record.versions):
        if weights_key(known.files) != weights:
            continue
        for event in reversed(record.events):
            rolled_back = event.what == "rolled_back" and event.before == known.number
            if rolled_back or (event.what == "rejected" and event.version == known.number):
                word, why = ("taken back" if rolled_back else "rejected"), f": {event.why}" if event.why else ""
                return f"version {known.number} has the same weights, and was {word} on {event.at} by {event.who}{why}"
            if event.what == "promoted" and event.version == known.number:
                break
    return ""


def _used_up(record: Record, release: Release) -> str:
    """Why the test may promote nothing after those of a year, as a clause; "" if it may, or nothing was tested."""
    if release.level is None:
        return ""
    moment = datetime.fromisoformat(now())
    return tests_spent.used_up(record.spent, release.key, release.level, release.confidence, moment)


def compared(number: int | None) -> str:
    return named(number) if number else "no version of this registry"


def named(number: int | None) -> str:
    return "none" if number is None else f"version {number}"


def key_of_files(folder: str | Path) -> dict[str, VersionFile]:
    """What the files below a model's folder are, here or in a bucket, by their names from it."""
    root = storage.uri(folder)
    described = {}
    for file in storage.below(root):
        with download.local_copy(file.path) as path, open(path, "rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        described[file.path.removeprefix(f"{root}/")] = VersionFile(bytes=file.bytes, sha256=sha256)
    return described


def key_of(model: Mapping[str, VersionFile], champion: ChampionPins | None, data: str, decision: Decision) -> str:
    """The key of a release.

    Args:
        model: The challenger's files.
        champion: What it was compared with; None = no champion.
        data: Fingerprint of the prepared data.
        decision: Its settings count: another margin is another question, and so is a promotion by the owner's word.
    """
    asked: list[float | str] = [decision.margin, decision.confidence, decision.nights]
    asked += [decision.approve] if decision.overrides else []
    text = json.dumps([weights_key(model), _of_champion(champion), data, asked])
    return hashlib.sha256(text.encode()).hexdigest()


def weights_key(model: Mapping[str, VersionFile]) -> dict[str, str]:
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
