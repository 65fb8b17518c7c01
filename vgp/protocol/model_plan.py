"""The steps that make Vertex AI's Model Registry equal to the record of our registry, as values in a safe order.

Missing versions are uploaded first, then states and aliases change, and versions are removed last, so that an alias
always has a version. Of two copies of a version the older one stays.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from vgp.base.documents.json_text import JsonObject
from vgp.protocol import model_service
from vgp.protocol.model_service import NUMBER, REGISTRY, STATE, Refused

CHAMPION, DEFAULT = "champion", "default"
#: Versions younger than this are left to the step that registered them, which may be uploading them now.
YOUNG = timedelta(minutes=15)

#: The versions on Vertex AI, oldest first.
Live = Sequence[JsonObject]


@dataclass(frozen=True)
class Upload:
    """The upload of a version that is missing on Vertex AI."""

    version: JsonObject
    #: Whether the model already exists on Vertex AI.
    model_exists: bool

    def __str__(self) -> str:
        return f"version {self.version['number']} uploaded"


@dataclass(frozen=True)
class Relabel:
    """The new labels of a version whose state has changed."""

    version_id: str
    labels: Mapping[str, str]

    def __str__(self) -> str:
        return f"version {self.labels[NUMBER]} marked {self.labels[STATE]}"


@dataclass(frozen=True)
class Move:
    """The move of an alias to a version; `holders` are the ids of the versions that have the alias now."""

    alias: str
    number: str
    version_id: str
    holders: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.alias} moved to version {self.number}"


@dataclass(frozen=True)
class Take:
    """The removal of an alias from a version."""

    alias: str
    number: str
    version_id: str

    def __str__(self) -> str:
        return f"{self.alias} removed from version {self.number}"


@dataclass(frozen=True)
class Remove:
    """The removal of a version that the record has deleted, or that was uploaded twice."""

    number: str
    version_id: str
    is_duplicate: bool
    #: Whether it is the model's only version, which Vertex AI deletes only together with the model.
    last: bool

    def __str__(self) -> str:
        return f"{'duplicate of ' if self.is_duplicate else ''}version {self.number} removed"


Step = Upload | Relabel | Move | Take | Remove


def steps(record: JsonObject, live: Live, *, mine: int | None = None, now: datetime | None = None) -> Iterator[Step]:
    """Yields the steps that are left.

    Args:
        mine: The version that the caller registered, as in `model_registry.reconcile`. Without `mine` and `now`, all
            missing versions are uploaded.

    Raises:
        Refused: the model on Vertex AI has versions that this registry did not upload.
    """
    ours = _versions_by_number(record, live)
    for version in record["versions"]:
        if version["number"] not in ours and _is_due(version, mine, now):
            yield Upload(version, model_exists=bool(live))
    yield from _relabel(record, ours)
    yield from _move_aliases(record, live, ours)
    yield from _remove(record, live, ours)


def notes(record: JsonObject, live: Live) -> list[str]:
    """Returns a sentence on each difference that no step can remove."""
    missing = [
        f"version {version['number']} is not on Vertex AI: it is a script's own model, which our image cannot serve"
        for version in record["versions"]
        if version["state"] != "deleted" and not model_service.servable(version)
    ]
    return missing + [
        f"version {version['labels'][NUMBER]} stays on Vertex AI: it is deployed to an endpoint"
        for version in _obsolete(record, live, _versions_by_number(record, live))
        if version.get("deployedModels")
    ]


def _versions_by_number(record: JsonObject, live: Live) -> dict[int, JsonObject]:
    """Returns the oldest version on Vertex AI of each number. Raises Refused as `steps` does."""
    registry = model_service.registry_label(record["versions"][0]) if record["versions"] else ""
    by_number: dict[int, JsonObject] = {}
    for version in live:
        labels = version.get("labels", {})
        if labels.get(REGISTRY) != registry or not str(labels.get(NUMBER, "")).isdecimal():
            raise Refused(
                f"Vertex AI has a model {model_service.model_id(record)} that does not belong to this registry: its "
                f"version {version['versionId']} was uploaded by hand or by another registry. Choose another "
                "model_name, or delete that model on Vertex AI."
            )
        by_number.setdefault(int(labels[NUMBER]), version)
    return by_number


def _is_due(version: JsonObject, mine: int | None, now: datetime | None) -> bool:
    if version["state"] == "deleted" or not model_service.servable(version):
        return False
    if mine is None or now is None or version["number"] == mine:
        return True
    return datetime.fromisoformat(str(version["created"])) < now - YOUNG


def _relabel(record: JsonObject, ours: Mapping[int, JsonObject]) -> Iterator[Step]:
    """Yields a step for each version with an old state, the only field of a version that ever changes."""
    for version in record["versions"]:
        uploaded = ours.get(version["number"])
        if uploaded and version["state"] != "deleted" and uploaded["labels"].get(STATE) != version["state"]:
            yield Relabel(uploaded["versionId"], {**uploaded["labels"], STATE: version["state"]})


def _move_aliases(record: JsonObject, live: Live, ours: Mapping[int, JsonObject]) -> Iterator[Step]:
    targets = {name: ours[number] for name, number in record["aliases"].items() if number in ours}
    if default := _default(record, live, ours):
        targets[DEFAULT] = default
    for name, version in sorted(targets.items()):
        holders = _list_holders(live, name)
        if version not in holders:
            ids = tuple(holder["versionId"] for holder in holders)
            yield Move(name, version["labels"][NUMBER], version["versionId"], ids)
    for version in live:
        for name in sorted(set(version.get("versionAliases", [])) - {DEFAULT}):
            has_moved = name in targets and version is not targets[name] and targets[name] in _list_holders(live, name)
            if has_moved or name not in record["aliases"]:
                yield Take(name, version["labels"][NUMBER], version["versionId"])


def _default(record: JsonObject, live: Live, ours: Mapping[int, JsonObject]) -> JsonObject | None:
    """Returns the version that gets the alias `default`: the champion; else the newest version, if no remaining version
    has the alias; else None."""
    if champion := ours.get(record["aliases"].get(CHAMPION, 0)):
        return champion
    obsolete = _obsolete(record, live, ours)
    remaining = [version for version in live if version not in obsolete]
    has_default = any(version in remaining for version in _list_holders(live, DEFAULT))
    return remaining[-1] if remaining and not has_default else None


def _remove(record: JsonObject, live: Live, ours: Mapping[int, JsonObject]) -> Iterator[Step]:
    for version in _obsolete(record, live, ours):
        if not version.get("deployedModels"):
            number = version["labels"][NUMBER]
            is_duplicate = ours[int(number)] is not version
            yield Remove(number, version["versionId"], is_duplicate, last=len(live) == 1)


def _obsolete(record: JsonObject, live: Live, ours: Mapping[int, JsonObject]) -> list[JsonObject]:
    """Returns the versions that the record has deleted, and duplicates. Versions missing in the record are newer than
    it, and stay."""
    deleted = {version["number"] for version in record["versions"] if version["state"] == "deleted"}
    numbers = [int(version["labels"][NUMBER]) for version in live]
    return [v for v, number in zip(live, numbers, strict=True) if number in deleted or ours[number] is not v]


def _list_holders(live: Live, name: str) -> list[JsonObject]:
    return [version for version in live if name in version.get("versionAliases", [])]
