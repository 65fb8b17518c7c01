"""The pins of a batch prediction: its data and its model version."""

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
from vgp.steps.pins.resolve import load_earlier

#: The placeholders of a destination.
WORDS = ("date", "run", "version")


@dataclass(frozen=True)
class Resolved:
    """The outputs of the step, with sentences for the log."""

    digest: str
    uri: str
    #: URIs of the pins of the data and of the model.
    data: str
    model: str
    model_name: str
    #: The folder or table, with its placeholders replaced; "" = the step's own output.
    destination: str = ""
    words: tuple[str, ...] = ()
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def outputs(self) -> tuple[str, str, str, str, str, str]:
        """Returns the step's outputs in the order of its signature."""
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
    """Pins data and model, or uses the pins of an earlier run of the same request.

    Args:
        request: Its `champion` names the model: `champion`, a version number, an alias, or a folder.
        folder: The folder of pins.
        destination: May contain {date}, {run} and {version}, which are replaced.

    Raises:
        UserError: the model does not exist or has another task, or the data cannot be read. No pins are written.
    """
    now = now or datetime.now(UTC)
    when = moment.choose_moment(as_of, scheduled, now)
    if pins:
        earlier = load_earlier(pins, request, pipeline=pipeline, project=project, as_of=as_of)
        assert earlier.champion
        target = storage.read(_destination_file(pins), most=1 << 20).decode()
        words = [f"pins: of an earlier run, {pins}."]
        return _build_outputs(earlier.run, pins.rpartition("/")[0], registry, target, words)
    model, words = _pin_model(registry, request, project, epoch(now))
    target = _fill_destination(
        destination, date=(when.time if when else now).date().isoformat(), run=run, version=model.number or ""
    )
    uri = store.save(folder, model)
    card = bundle.load_card(uri)
    if task_names.spec(card.task) != request.task:
        raise UserError(
            f"model = {request.champion} has the task {card.task}, not {request.task}: set task = {card.task}."
        )
    with_options = request.model_copy(update={"task_options": card.options})
    rows = data.pin(with_options, pipeline=pipeline, run=run, moment=when, epoch=epoch(now), folder=folder,
                    dry_run=False, predicted=True)  # fmt: skip
    document = RunPins(
        data=pinned.read_digest(store.save(folder, rows.document)), champion=pinned.read_digest(uri), pipeline=pipeline,
        project=project, as_of=as_of.strip(), request=request, seen=rows.seen,
    )  # fmt: skip
    storage.overwrite(_destination_file(store.save(folder, document)), target.encode())
    return _build_outputs(document, folder, registry, target, [*rows.words, *words])


def _build_outputs(run: RunPins, folder: str, registry: Registry, destination: str, words: list[str]) -> Resolved:
    digest = store.digest(run)
    rows = store.load(f"{folder}/{run.data}.json", DataPins)
    return Resolved(
        digest, f"{folder}/{digest}.json", f"{folder}/{run.data}.json", f"{folder}/{run.champion}.json", registry.model,
        destination, tuple(words), {"files": len(rows.objects) + len(rows.files), "destination": destination},
    )  # fmt: skip


def _destination_file(uri: str) -> str:
    """Returns the URI of the file that keeps the destination of these pins, whose date is that of the first run."""
    return f"{uri.removesuffix('.json')}-destination.txt"


def _pin_model(registry: Registry, request: Request, project: str, now: int) -> tuple[ChampionPins, list[str]]:
    """Pins the requested model; returns sentences for the log, too."""
    if reigning.is_folder(request.champion):
        return reigning.pin_folder(request.champion, now, name="model"), [f"model: {request.champion}."]
    record = reigning.read(registry, request.task, project)
    if not record.versions:
        raise UserError(_unknown_model(registry))
    version = choose_version(record, request.champion)
    sentence = f"model: version {version.number} of {record.model}, registered {version.created}."
    return reigning.pin(registry, record, version, now), [sentence]


def _unknown_model(registry: Registry) -> str:
    """Returns the message for a model name without versions."""
    try:
        names = [name for name in registries.models(registry.root) if name != registry.model]
    except UserError:  # the registry does not exist
        names = []
    present = f"It has {', '.join(names[:20])}: set model_name." if names else "It has no models yet."
    return (
        f"{registry.root} has no model named {registry.model}. {present} A run of the pipeline training registers one. "
        "Or use the folder of a model: model = ./FOLDER."
    )


def choose_version(record: Record, model: str) -> Version:
    """Returns the version that the parameter `model` names.

    Raises:
        UserError: it does not exist, was deleted or rejected, or the model has no champion yet.
    """
    if model not in (CHAMPION, reigning.AUTO):
        try:
            version = reigning.find_version(record, model)
        except UserError as error:
            raise UserError(str(error).replace("champion = ", "model = ", 1)) from None
        assert version
        return version
    if version := record.champion():
        return version
    numbers = [str(v.number) for v in record.versions if v.state not in ("deleted", "rejected")]
    more = f" Its versions are {', '.join(numbers[-10:])}: name one, such as model = {numbers[-1]}." if numbers else ""
    raise UserError(
        f"model = {model}: {record.model} has no champion yet.{more} A run of the pipeline training or vgp models "
        "promote makes one. Or use the folder of a model (with a /)."
    )


def check_destination(destination: str) -> None:
    """Raises UserError for an unknown placeholder."""
    _fill_destination(destination, **dict.fromkeys(WORDS, "x"))


def _fill_destination(destination: str, **values: Any) -> str:
    """Replaces the placeholders of a destination.

    Raises:
        UserError: a placeholder is unknown, or the model has no version.
    """
    unknown = [name for name in re.findall(r"\{(.*?)\}", destination) if name not in WORDS]
    if unknown:
        choices = ", ".join(f"{{{word}}}" for word in WORDS)
        raise UserError(f"destination = {destination}: {{{unknown[0]}}} is unknown. Placeholders are {choices}.")
    if "{version}" in destination and not values["version"]:
        raise UserError(f"destination = {destination}: the model of a folder has no version. Remove {{version}}.")
    return re.sub(r"\{(.*?)\}", lambda match: str(values[match[1]]), destination).strip()
