"""What a prediction works on: the data as it is now, and a version of the model, both as pins."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.data import bundle, task_names
from vgp.protocol import moment
from vgp.protocol import pins as store
from vgp.protocol.moment import epoch
from vgp.protocol.pins import ChampionPins, DataPins, Request, RunPins
from vgp.registry import registry as registries
from vgp.registry import reigning
from vgp.registry.documents import CHAMPION, Record, Version
from vgp.registry.registry import Registry
from vgp.steps.pins import data
from vgp.steps.pins.resolve import take_earlier

#: What a destination may hold in braces.
WORDS = ("date", "run", "version")


@dataclass(frozen=True)
class Resolved:
    """Short texts, and what people are told."""

    digest: str
    uri: str
    #: Where the pins of the data and of the model lie.
    data: str
    model: str
    model_name: str
    #: The folder or table, without words in braces; "" = the step's own.
    destination: str = ""
    words: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def outputs(self) -> tuple[str, str, str, str, str, str]:
        """Those of the step, in their order."""
        return self.digest, self.uri, self.data, self.model, self.model_name, self.destination


def resolve(
    request: Request,
    folder: str,
    registry: Registry,
    *,
    run: str = "",
    pipeline: str = "batch-prediction",
    project: str = "",
    destination: str = "",
    scheduled: str = "",
    as_of: str = "",
    pins: str = "",
    now: datetime | None = None,
) -> Resolved:
    """Pins data and model, or takes the pins of an earlier run of the same request.

    Args:
        request: Its `champion` is what names the model: champion, a number, an alias, or a folder.
        folder: Where pins lie.
        destination: With {date}, {run} and {version}, which are put in.

    Raises:
        UserError: there is no such model, it is of another task, or the data cannot be read. No pins are written then.
    """
    now = now or datetime.now(UTC)
    when = moment.choose_moment(as_of, scheduled, now)
    if pins:
        taken = take_earlier(pins, request, pipeline=pipeline, project=project, as_of=as_of)
        assert taken.champion
        place, words = storage.read(_beside(pins), most=1 << 20).decode(), [f"pins: those of an earlier run, {pins}."]
        return _resolved(taken.run, pins.rpartition("/")[0], registry, place, words)
    model, words = _model(registry, request, project, epoch(now))
    place = _filled(
        destination, date=(when.time if when else now).date().isoformat(), run=run, version=model.number or ""
    )
    uri = store.save(folder, model)
    card = bundle.load_card(uri)
    if task_names.spec(card.task) != request.task:
        raise UserError(
            f"model = {request.champion}: it is of the task {card.task}, and not of {request.task}: give task."
        )
    asked = request.model_copy(update={"task_options": card.options})
    read = data.pin(asked, pipeline=pipeline, run=run, moment=when, epoch=epoch(now), folder=folder, dry_run=False,
                    predicted=True)  # fmt: skip
    rows = store.save(folder, read.document)
    document = RunPins(
        data=pinned.digest(rows), champion=pinned.digest(uri), pipeline=pipeline, project=project, as_of=as_of.strip(),
        request=request, seen=read.seen,
    )  # fmt: skip
    storage.overwrite(_beside(store.save(folder, document)), place.encode())
    return _resolved(document, folder, registry, place, [*read.words, *words])


def _resolved(run: RunPins, folder: str, registry: Registry, place: str, words: list[str]) -> Resolved:
    digest = store.digest(run)
    read = store.load(f"{folder}/{run.data}.json", DataPins)
    return Resolved(
        digest, f"{folder}/{digest}.json", f"{folder}/{run.data}.json", f"{folder}/{run.champion}.json", registry.model,
        place, tuple(words), {"files": len(read.objects) + len(read.files), "destination": place},
    )  # fmt: skip


def _beside(uri: str) -> str:
    """Where the destination of these pins lies: its date is that of the first start."""
    return f"{uri.removesuffix('.json')}-destination.txt"


def _model(registry: Registry, request: Request, project: str, now: int) -> tuple[ChampionPins, list[str]]:
    """The pins of the model that was asked for, and what people are told of it."""
    if reigning.is_folder(request.champion):
        return reigning.pin_folder(request.champion, now, name="model"), [f"model: {request.champion}."]
    record = reigning.read(registry, request.task, project)
    if not record.versions:
        raise UserError(_unknown(registry))
    version = chosen(record, request.champion)
    told = f"model: version {version.number} of {record.model}, registered {version.created}."
    return reigning.pin(registry, record, version, now), [told]


def _unknown(registry: Registry) -> str:
    """What is said where no run has registered a model of that name."""
    try:
        names = [name for name in registries.models(registry.root) if name != registry.model]
    except UserError:  # there is no registry at all
        names = []
    there = f"It has {', '.join(names[:20])}: give model_name." if names else "It has none yet."
    return (
        f"{registry.root} has no model named {registry.model}. {there} A run of the pipeline training registers one; a "
        "folder is a model, too: model = ./FOLDER."
    )


def chosen(record: Record, given: str) -> Version:
    """The version that `model` names.

    Raises:
        UserError: there is none of that name; it was deleted or rejected; or no run has promoted one yet.
    """
    if given not in (CHAMPION, reigning.AUTO):
        try:
            version = reigning.find_version(record, given)
        except UserError as error:
            raise UserError(str(error).replace("champion = ", "model = ", 1)) from None
        assert version
        return version
    if version := record.champion():
        return version
    there = [str(v.number) for v in record.versions if v.state not in ("deleted", "rejected")]
    more = f" Its versions are {', '.join(there[-10:])}: name one, such as model = {there[-1]}." if there else ""
    raise UserError(
        f"model = {given}: {record.model} has no champion yet.{more} A run of the pipeline training makes one, and "
        "vgp models promote; a folder is a model, too (with a /)."
    )


def check_destination(destination: str) -> None:
    """Raises UserError for a word in braces that nothing is put in for."""
    _filled(destination, **dict.fromkeys(WORDS, "x"))


def _filled(destination: str, **words: Any) -> str:
    unknown = [name for name in re.findall(r"\{(.*?)\}", destination) if name not in WORDS]
    if unknown:
        named = ", ".join(f"{{{word}}}" for word in WORDS)
        raise UserError(f"destination = {destination}: nothing is put in for {{{unknown[0]}}}. Choose of {named}.")
    filled = re.sub(r"\{(.*?)\}", lambda match: str(words[match[1]]), destination).strip()
    if "{version}" in destination and not words["version"]:
        raise UserError(f"destination = {destination}: a model of a folder has no version. Leave {{version}} out.")
    return filled
