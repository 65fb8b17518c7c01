"""Resolves a request to its pins: the data's objects and files, the windows in dates, and the champion's files."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.protocol import moment
from vgp.protocol import pins as store
from vgp.protocol.moment import epoch
from vgp.protocol.pins import RENAMED, ChampionPins, DataPins, Request, RunPins
from vgp.registry import reigning
from vgp.registry.documents import Record
from vgp.registry.registry import Registry
from vgp.steps.pins import data, weights


@dataclass(frozen=True)
class Resolved:
    """The outputs of the step `resolve`, with sentences for the log."""

    #: Checksum and URI of the run's pins.
    digest: str
    uri: str
    #: URI of the pins of the data, the input of `prepare` and `train`.
    data: str
    #: URI of the pins of the champion, the input of `evaluate`; "" without a champion.
    champion: str
    #: The root of the registry, and the model's name in it.
    registry: str = ""
    model_name: str = ""
    #: Sentences for the log.
    words: tuple[str, ...] = ()
    #: Metadata of the artifact.
    metadata: Mapping[str, object] = field(default_factory=dict)


def resolve(
    request: Request,
    folder: str,
    registry: Registry | None = None,
    *,
    pipeline: str,
    project: str = "",
    run: str = "",
    scheduled: str = "",
    as_of: str = "",
    pins: str = "",
    dry_run: bool = False,
    now: datetime | None = None,
) -> Resolved:
    """Pins data and champion of a run, or uses the pins of an earlier run of the same request.

    Args:
        folder: The folder of pins (`run_folder.pins`).
        registry: The registry of the champion, in which the run's model is registered; None = no registry.
        project: The number of the project; "" for a local run.
        now: The current time; None = from the clock.

    Raises:
        UserError: the request is invalid, or its data or champion cannot be read. No pins are written.
    """
    now = now or datetime.now(UTC)
    pin_champion = partial(_pin_champion, request.champion, registry, _record(registry, request.task, project, dry_run))
    resolved = _resolve_pins(
        request, folder, pin_champion, pipeline=pipeline, project=project, run=run, scheduled=scheduled, as_of=as_of,
        pins=pins, dry_run=dry_run, now=now,
    )  # fmt: skip
    return replace(resolved, registry=registry.root, model_name=registry.model) if registry else resolved


def _record(registry: Registry | None, task: str, project: str, dry_run: bool) -> Record | None:
    """Reads the registry's record, after a check that the registry belongs to the task and can be written to."""
    if registry is None:
        return None
    record = reigning.read(registry, task, project)
    if not dry_run:
        registry.require_writable()
    return record


def _resolve_pins(
    request: Request, folder: str, pin_champion: "Callable[[int], tuple[ChampionPins | None, tuple[str, ...]]]", *,
    pipeline: str, project: str, run: str, scheduled: str, as_of: str, pins: str, dry_run: bool, now: datetime,
) -> Resolved:  # fmt: skip
    if pins:
        earlier = load_earlier(pins, request, pipeline=pipeline, project=project, as_of=as_of)
        words = (f"pins: of an earlier run, {pins}.",)
        if earlier.data.epoch == epoch(now):
            return _build_outputs(earlier.run, pins.rpartition("/")[0], words, earlier.data)
        renewed = earlier.in_epoch(epoch(now))
        return _write_pins(folder, renewed.data, renewed.champion, _build_header(earlier.run), words, dry_run)
    when = moment.choose_moment(as_of, scheduled, now)
    champion, champion_words = pin_champion(epoch(now))
    with_weights = request
    if request.warm_start == weights.CHAMPION:
        with_weights = request.model_copy(update={"warm_start": champion.folder if champion else ""})
    rows = data.pin(with_weights, pipeline=pipeline, run=run, moment=when, epoch=epoch(now), folder=folder,
                    dry_run=dry_run)  # fmt: skip
    header = {"pipeline": pipeline, "project": project, "as_of": as_of.strip(), "request": request, "seen": rows.seen}
    return _write_pins(folder, rows.document, champion, header, (*rows.words, *champion_words), dry_run)


def _pin_champion(
    parameter: str, registry: Registry | None, record: Record | None, epoch: int
) -> tuple[ChampionPins | None, tuple[str, ...]]:
    """Pins the champion; returns sentences for the log, too.

    Raises:
        UserError: the champion does not exist.
    """
    if not parameter or reigning.is_folder(parameter):
        return (reigning.pin_folder(parameter, epoch) if parameter else None), ()
    if registry is None or record is None:
        raise UserError(f"champion = {parameter} names a version, but the run has no registry: give a folder.")
    version = reigning.find_version(record, parameter)
    if version is None:
        return None, (f"champion: {record.model} has none yet; the model is compared with the baseline.",)
    pins = reigning.pin(registry, record, version, epoch)
    end = f"; its files are gone, so the model is compared with the baseline: {pins.problem}" if pins.problem else "."
    return pins, (f"champion: version {version.number} of {record.model}{end}",)


def write_record(resolved: Resolved, record: str | Path) -> None:
    """Writes the resolved values as JSON to the step's output."""
    names = ("digest", "uri", "data", "champion", "registry", "model_name", "words")
    text = {name: getattr(resolved, name) for name in names}
    if not storage.is_remote(str(record)):
        Path(record).parent.mkdir(parents=True, exist_ok=True)
    storage.overwrite(str(record), (json.dumps({**text, **resolved.metadata}, indent=1) + "\n").encode())


def _build_header(run: RunPins) -> JsonObject:
    return {name: getattr(run, name) for name in ("pipeline", "project", "as_of", "request", "seen")}


def _write_pins(
    folder: str, data: DataPins, champion: ChampionPins | None, header: JsonObject, words: tuple[str, ...],
    dry_run: bool,
) -> Resolved:  # fmt: skip
    """Writes the three documents, the run's last, so that the documents that it refers to exist."""
    uris = [store.save(folder, document, dry_run=dry_run) if document else "" for document in (data, champion)]
    run = RunPins(data=pinned.read_digest(uris[0]), champion=pinned.read_digest(uris[1]), **header)
    store.save(folder, run, dry_run=dry_run)
    return _build_outputs(run, folder, words, data)


def _build_outputs(run: RunPins, folder: str, words: tuple[str, ...], data: DataPins) -> Resolved:
    digest = store.digest(run)
    return Resolved(
        digest=digest,
        uri=f"{folder}/{digest}.json",
        data=f"{folder}/{run.data}.json",
        champion=f"{folder}/{run.champion}.json" if run.champion else "",
        words=words,
        metadata={"files": len(data.objects) + len(data.files), "seen": run.seen, "as_of": run.as_of},
    )


# ---- the pins of an earlier run of the same request


@dataclass(frozen=True)
class Pins:
    """The three documents of one run."""

    run: RunPins
    data: DataPins
    champion: ChampionPins | None

    def in_epoch(self, epoch: int) -> "Pins":
        """Returns a copy with another cache epoch, which excludes cache hits on results of the old one."""
        champion = self.champion.model_copy(update={"epoch": epoch}) if self.champion else None
        return Pins(self.run, self.data.model_copy(update={"epoch": epoch}), champion)


def load_earlier(uri: str, request: Request, *, pipeline: str, project: str, as_of: str) -> Pins:
    """Loads the pins at `uri` and checks that they belong to this request.

    Raises:
        UserError: they do not exist, were changed, or belong to another project, pipeline or request.
    """
    uri = storage.uri(uri)
    run = store.load(uri, RunPins)
    check_earlier(uri, run, request, as_of=as_of)
    if run.project != project:
        theirs, this = (f"project {number}" if number else "a local run" for number in (run.project, project))
        raise UserError(f"pins = {uri} are of {theirs}, and this run is of {this}: leave `pins` empty.")
    if RENAMED.get(run.pipeline, run.pipeline) != pipeline:
        raise UserError(f"pins = {uri} are of the pipeline {run.pipeline}, not of {pipeline}: leave `pins` empty.")
    folder = uri.rpartition("/")[0]
    champion = store.load(f"{folder}/{run.champion}.json", ChampionPins) if run.champion else None
    return Pins(run, store.load(f"{folder}/{run.data}.json", DataPins), champion)


def check_earlier(uri: str, run: RunPins, request: Request, *, as_of: str) -> None:
    """Raises UserError if the pins belong to another request."""
    for name, pinned_value in run.request.model_dump().items():
        value = getattr(request, name)
        if pinned_value != value:
            raise UserError(
                f"pins = {uri} are of a run with {name} = {pinned_value!r}, and this run has {value!r}. Pins are valid "
                "for the same request only: leave `pins` empty."
            )
    if as_of.strip() and as_of.strip() != run.as_of:
        raise UserError(
            f"pins = {uri} are of as_of = {run.as_of!r}, not of {as_of.strip()!r}: leave one of them empty."
        )
