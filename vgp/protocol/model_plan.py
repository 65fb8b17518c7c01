"""What is left to do until Vertex AI's registry shows what the record of ours says: values, in a safe order.

What is missing comes first, then states and aliases, and at last what goes: no alias is ever on something that is not
there. Of versions that came twice the oldest stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from vgp.base.documents.json_text import JsonObject
from vgp.protocol import model_service as uploads
from vgp.protocol.model_service import NUMBER, REGISTRY, STATE, Refused

CHAMPION, DEFAULT = "champion", "default"
#: Versions younger than this are left to the step that registered them: it may be uploading right now.
YOUNG = timedelta(minutes=15)

#: Versions as Vertex AI lists them, the oldest first.
Live = Sequence[JsonObject]


@dataclass(frozen=True)
class Upload:
    """A version that is not there."""

    version: JsonObject
    #: Whether the model is there.
    model_exists: bool

    def __str__(self) -> str:
        return f"version {self.version['number']} uploaded"


@dataclass(frozen=True)
class Relabel:
    """A version whose state is another now."""

    version_id: str
    labels: Mapping[str, str]

    def __str__(self) -> str:
        return f"version {self.labels[NUMBER]} marked {self.labels[STATE]}"


@dataclass(frozen=True)
class Move:
    """An alias that belongs on that version, and who holds it."""

    alias: str
    number: str
    version_id: str
    holders: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.alias} moved to version {self.number}"


@dataclass(frozen=True)
class Take:
    """An alias that does not belong on that version."""

    alias: str
    number: str
    version_id: str

    def __str__(self) -> str:
        return f"{self.alias} taken from version {self.number}"


@dataclass(frozen=True)
class Remove:
    """A version that is deleted in the record, or that came twice."""

    number: str
    version_id: str
    twice: bool
    #: Whether it is all that the model has: Vertex AI deletes the last one with its model alone.
    last: bool

    def __str__(self) -> str:
        return f"version {self.number} removed{', which had come twice' if self.twice else ''}"


Step = Upload | Relabel | Move | Take | Remove


def steps(record: JsonObject, live: Live, *, mine: int | None = None, now: datetime | None = None) -> Iterator[Step]:
    """What there is to do. `mine` and `now` as in `model_registry.reconcile`; without them all that is missing is due.

    Raises:
        Refused: there are versions that no registry, or another one, has made.
    """
    ours = _known(record, live)
    for version in record["versions"]:
        if version["number"] not in ours and _is_due(version, mine, now):
            yield Upload(version, model_exists=bool(live))
    yield from _relabelled(record, ours)
    yield from _aliased(record, live, ours)
    yield from _removed(record, live, ours)


def notes(record: JsonObject, live: Live) -> list[str]:
    """What stays different whatever is done, in words."""
    told = [
        f"version {version['number']} is not on Vertex AI: it is a script's own model, which our image cannot serve"
        for version in record["versions"]
        if version["state"] != "deleted" and not uploads.servable(version)
    ]
    return told + [
        f"version {version['labels'][NUMBER]} stays on Vertex AI: it is deployed to an endpoint"
        for version in _going(record, live, _known(record, live))
        if version.get("deployedModels")
    ]


def _known(record: JsonObject, live: Live) -> dict[int, JsonObject]:
    """Number -> the oldest version there with it. Raises as `steps`."""
    registry = uploads.registry_label(record["versions"][0]) if record["versions"] else ""
    known: dict[int, JsonObject] = {}
    for version in live:
        labels = version.get("labels", {})
        if labels.get(REGISTRY) != registry or not str(labels.get(NUMBER, "")).isdecimal():
            raise Refused(
                f"Vertex AI has a model {uploads.model_id(record)} that is not of this registry: its version "
                f"{version['versionId']} was made by hand, or by another registry. Give the model here another name "
                "(model_name), or delete that one."
            )
        known.setdefault(int(labels[NUMBER]), version)
    return known


def _is_due(version: JsonObject, mine: int | None, now: datetime | None) -> bool:
    if version["state"] == "deleted" or not uploads.servable(version):
        return False
    if mine is None or now is None or version["number"] == mine:
        return True
    return datetime.fromisoformat(str(version["created"])) < now - YOUNG


def _relabelled(record: JsonObject, ours: Mapping[int, JsonObject]) -> Iterator[Step]:
    """A candidate is approved or rejected; nothing else of a version ever changes."""
    for version in record["versions"]:
        there = ours.get(version["number"])
        if there and version["state"] != "deleted" and there["labels"].get(STATE) != version["state"]:
            yield Relabel(there["versionId"], {**there["labels"], STATE: version["state"]})


def _aliased(record: JsonObject, live: Live, ours: Mapping[int, JsonObject]) -> Iterator[Step]:
    targets = {name: ours[number] for name, number in record["aliases"].items() if number in ours}
    if default := _default(record, live, ours):
        targets[DEFAULT] = default
    for name, version in sorted(targets.items()):
        holders = _holders(live, name)
        if version not in holders:
            ids = tuple(holder["versionId"] for holder in holders)
            yield Move(name, version["labels"][NUMBER], version["versionId"], ids)
    for version in live:
        for name in sorted(set(version.get("versionAliases", [])) - {DEFAULT}):
            is_elsewhere = name in targets and version is not targets[name] and targets[name] in _holders(live, name)
            if is_elsewhere or name not in record["aliases"]:
                yield Take(name, version["labels"][NUMBER], version["versionId"])


def _default(record: JsonObject, live: Live, ours: Mapping[int, JsonObject]) -> JsonObject | None:
    """The version that is meant where none is named: the champion; else as it is, if that stays; else the newest."""
    if champion := ours.get(record["aliases"].get(CHAMPION, 0)):
        return champion
    going = _going(record, live, ours)
    staying = [version for version in live if version not in going]
    is_held = any(version in staying for version in _holders(live, DEFAULT))
    return staying[-1] if staying and not is_held else None


def _removed(record: JsonObject, live: Live, ours: Mapping[int, JsonObject]) -> Iterator[Step]:
    for version in _going(record, live, ours):
        if not version.get("deployedModels"):
            number = version["labels"][NUMBER]
            twice = ours[int(number)] is not version
            yield Remove(number, version["versionId"], twice, last=len(live) == 1)


def _going(record: JsonObject, live: Live, ours: Mapping[int, JsonObject]) -> list[JsonObject]:
    """What is deleted in the record, or there twice. What the record does not know is newer than it, and stays."""
    deleted = {version["number"] for version in record["versions"] if version["state"] == "deleted"}
    numbers = [int(version["labels"][NUMBER]) for version in live]
    return [v for v, number in zip(live, numbers, strict=True) if number in deleted or ours[number] is not v]


def _holders(live: Live, name: str) -> list[JsonObject]:
    return [version for version in live if name in version.get("versionAliases", [])]
