"""Computes the registry record after a release, as one function from a record to the next.

The record is written in one transaction, so a killed process leaves either the old record or the new one. A release
has a key (model, test settings, champion, data), so repeating it changes nothing.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from vgp.base.storage import download, storage
from vgp.decision.decision import Approval, Decision, EvidenceCheck
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins
from vgp.registry import changes, tests_spent
from vgp.registry.documents import CHAMPION, Record, Spent, Version, VersionFile, now

#: Prefixes in the history for a better model that was not registered, or not promoted.
NOT_REGISTERED, NOT_CHAMPION = "Not registered: ", " Not champion: "
SIMPLER = "a simpler model is better"


@dataclass(frozen=True)
class Release:
    """A challenger with the gate's decision."""

    #: The new version, still without a number; `champion` is the version that it was compared with.
    version: Version
    promote: bool
    approve: Approval
    #: Name of the run that releases it.
    who: str
    #: Part of the year's error that the test spends; None without a test, or without a champion to replace.
    level: float | None = None
    #: False if there were no predictions to decide by.
    decided: bool = True
    #: Whether it waits for a person because a simple model is better.
    candidate: bool = False
    #: Probability that no test of a year promotes a model by luck.
    confidence: float = 0.95
    #: Tonight's part of the evidence, and whether tonight's test promotes without it.
    evidence: EvidenceCheck | None = None
    better_tonight: bool = True

    @property
    def key(self) -> str:
        return self.version.key

    def with_files(self, files: Mapping[str, VersionFile]) -> "Release":
        """Returns a copy of the release whose version lists `files`."""
        return replace(self, version=self.version.model_copy(update={"files": dict(files)}))

    @property
    def registers(self) -> bool:
        """Whether the model becomes a version; an undecided one does with approve = manual, for a person to look at."""
        return self.promote or self.candidate or (not self.decided and self.approve == "manual")


def done(record: Record, key: str) -> bool:
    """Whether the record holds the release with this key."""
    return record.find_key(key) is not None or record.event("kept", key) is not None


def apply_release(record: Record, release: Release) -> Record:
    """Returns the record after the release, or the unchanged record if it holds the release already.

    A better model is promoted only if the champion that it was compared with is still the champion. It waits for a
    person if a simple model is better, if people rolled back or rejected a model with its weights, or if only the test
    promotes it and the year's error budget is used up; in the last case the test spends nothing, because it cannot
    promote by luck. The night's days join the evidence first; a promotion empties it.
    """
    if done(record, release.key):
        return record
    record = _weigh_evidence(record, release)
    why, used_up = release.version.reason, _used_up(record, release)
    if not release.registers:
        record = changes.keep(record, who=release.who, why=why, key=release.key) if release.decided else record
    elif taken_back := _taken_back(record, release.version):
        record = changes.keep(record, who=release.who, why=f"{NOT_REGISTERED}{taken_back}.", key=release.key)
    else:
        record = _register(record, release, why, used_up)
    if release.level is None:
        return record
    level, outcome = 0.0 if used_up else release.level, "promote" if release.promote else "keep"
    outcome = "candidate" if release.candidate else outcome
    return changes.spend(record, Spent(
        key=release.key, at=now(), level=level, version=release.version.champion, outcome=outcome,
    ))  # fmt: skip


def _weigh_evidence(record: Record, release: Release) -> Record:
    """Adds the night's new days to the evidence, unless another model is champion by now."""
    check = release.evidence
    if check is None or not release.decided or release.version.champion != record.aliases.get(CHAMPION):
        return record
    before = record.evidence_now()
    pins = release.version.pins.rpartition("/")[2].removesuffix(".json")
    after = before.after(check.days, needed=check.needed, worst_day=check.worst_day, least=check.least, pins=pins)
    return record if after == before else changes.weigh(record, after)


def _is_proved(record: Record, release: Release) -> bool:
    """Whether the evidence promotes the model, by the decision and with the days that the record took."""
    check = release.evidence
    return check is not None and check.passes and record.evidence_now().total >= check.needed


def _register(record: Record, release: Release, why: str, used_up: str) -> Record:
    proved = _is_proved(record, release)
    used_up = "" if proved else used_up
    waits = release.approve == "manual" or release.candidate or bool(used_up)
    version = release.version.model_copy(update={"state": "candidate" if waits else "registered"})
    expected, reigns = version.champion, record.aliases.get(CHAMPION)
    if release.candidate:
        why = f"{why}{NOT_CHAMPION}{SIMPLER}."
    elif used_up:
        why = f"{why}{NOT_CHAMPION}{used_up}."
    elif not waits and reigns != expected:
        why = f"{why}{NOT_CHAMPION}compared with {compared(expected)}, while the champion is {named(reigns)} by now."
    elif not waits and not (proved or release.better_tonight):
        why = f"{why}{NOT_CHAMPION}another run counted these days first, and its evidence is not enough."
    record = changes.register(record, version, who=release.who, why=why)
    registered = record.find_key(release.key)
    assert registered
    if waits or reigns != expected or not (proved or release.better_tonight):
        return record
    return changes.promote(record, registered.number, expected=expected, who=release.who, why=why, key=release.key)


def _taken_back(record: Record, version: Version) -> str:
    """Returns why only a person may promote a model with these weights, as a clause; "" if a run may."""
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
    """Returns why the year's error budget forbids a promotion, as a clause; "" if it does not, or without a test."""
    if release.level is None:
        return ""
    moment = datetime.fromisoformat(now())
    return tests_spent.used_up(record.spent, release.key, release.level, release.confidence, moment)


def compared(number: int | None) -> str:
    return named(number) if number else "no version of this registry"


def named(number: int | None) -> str:
    return "none" if number is None else f"version {number}"


def key_of_files(folder: str | Path) -> dict[str, VersionFile]:
    """Returns size and checksum of each file of a model's folder, local or in a bucket, by relative name."""
    root = storage.uri(folder)
    described = {}
    for file in storage.below(root):
        with download.local_copy(file.path) as path, open(path, "rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        described[file.path.removeprefix(f"{root}/")] = VersionFile(bytes=file.bytes, sha256=sha256)
    return described


def key_of(model: Mapping[str, VersionFile], champion: ChampionPins | None, data: str, decision: Decision) -> str:
    """Returns the key of a release.

    Args:
        model: The challenger's files.
        champion: The champion that it was compared with; None = no champion.
        data: Fingerprint of the prepared data.
        decision: Its settings are part of the key: another margin or approval is another release.
    """
    asked: list[float | str] = [decision.margin, decision.confidence, decision.nights]
    asked += [decision.approve] if decision.overrides else []
    text = json.dumps([weights_key(model), _format_champion_key(champion), data, asked])
    return hashlib.sha256(text.encode()).hexdigest()


def weights_key(model: Mapping[str, VersionFile]) -> dict[str, str]:
    """Returns the checksums of a model's files, without the files that the registry added."""
    return {name: file.sha256 for name, file in sorted(model.items()) if not name.startswith(f"{ABOUT}/")}


def _format_champion_key(champion: ChampionPins | None) -> str:
    """Returns the champion's part of a key: the version's key and problem, or the files of a folder."""
    if champion is None:
        return ""
    if champion.key and champion.problem:
        return f"{champion.key} gone"
    return champion.key or store.digest(champion.model_copy(update={"epoch": 0}))


#: Folder of a version with its report, decision, figures and card.
ABOUT = "about"
