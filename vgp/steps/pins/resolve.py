"""A request -> its pins: data as objects and files, windows as dates, the champion as its files."""

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
    """What the step `resolve` gives: short texts, and what people are told."""

    #: Of the run's pins.
    digest: str
    #: Where the run's pins lie.
    uri: str
    #: Where the pins of the data lie; what `prepare` and `train` take.
    data: str
    #: Where the pins of the champion lie; "" without one. What `evaluate` takes.
    champion: str
    #: The root of the registry, and the model's name in it.
    registry: str = ""
    model_name: str = ""
    #: Sentences.
    words: tuple[str, ...] = ()
    #: Figures for the artifact.
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
    """Pins what a run works on, or takes the pins of an earlier run of the same request.

    Args:
        folder: Where pins lie (`run_folder.pins`).
        registry: Where the champion reigns, and where this run's model is to be registered; None = nowhere.
        project: The number of the project; "" on a machine of one's own.
        now: The time; None = by the clock.

    Raises:
        UserError: something of the request is wrong or cannot be read. No pins are written then.
    """
    now = now or datetime.now(UTC)
    reigns = partial(_champion, request.champion, registry, _record(registry, request.task, project, dry_run))
    resolved = _resolved(
        request, folder, reigns, pipeline=pipeline, project=project, run=run, scheduled=scheduled, as_of=as_of,
        pins=pins, dry_run=dry_run, now=now,
    )  # fmt: skip
    return replace(resolved, registry=registry.root, model_name=registry.model) if registry else resolved


def _record(registry: Registry | None, task: str, project: str, dry_run: bool) -> Record | None:
    """What the registry holds, once it is known to be this run's, and to take what the run will write."""
    if registry is None:
        return None
    record = reigning.read(registry, task, project)
    if not dry_run:
        registry.require_writable()
    return record


def _resolved(
    request: Request, folder: str, reigns: "Callable[[int], tuple[ChampionPins | None, tuple[str, ...]]]", *,
    pipeline: str, project: str, run: str, scheduled: str, as_of: str, pins: str, dry_run: bool, now: datetime,
) -> Resolved:  # fmt: skip
    if pins:
        taken = take_earlier(pins, request, pipeline=pipeline, project=project, as_of=as_of)
        words = (f"pins: those of an earlier run, {pins}.",)
        if taken.data.epoch == epoch(now):
            return _outputs(taken.run, pins.rpartition("/")[0], words, taken.data)
        renewed = taken.renewed(epoch(now))
        return _written(folder, renewed.data, renewed.champion, _header(taken.run), words, dry_run)
    when = moment.choose_moment(as_of, scheduled, now)
    champion, told = reigns(epoch(now))
    begun = request
    if request.warm_start == weights.CHAMPION:
        begun = request.model_copy(update={"warm_start": champion.folder if champion else ""})
    read = data.pin(begun, pipeline=pipeline, run=run, moment=when, epoch=epoch(now), folder=folder, dry_run=dry_run)
    header = {"pipeline": pipeline, "project": project, "as_of": as_of.strip(), "request": request, "seen": read.seen}
    return _written(folder, read.document, champion, header, (*read.words, *told), dry_run)


def _champion(
    given: str, registry: Registry | None, record: Record | None, epoch: int
) -> tuple[ChampionPins | None, tuple[str, ...]]:
    """The pins of the champion, and what people are told of it. Raises UserError if it is not there."""
    if not given or reigning.is_folder(given):
        return (reigning.pin_folder(given, epoch) if given else None), ()
    if registry is None or record is None:
        raise UserError(f"champion = {given} names a version, and no registry is known: give a folder.")
    version = reigning.find_version(record, given)
    if version is None:
        return None, (f"champion: {record.model} has none yet; the model is compared with the baseline.",)
    pins = reigning.pin(registry, record, version, epoch)
    told = f"its files are gone, so the baseline stands in: {pins.problem}" if pins.problem else ""
    return pins, (f"champion: version {version.number} of {record.model}{f'; {told}' if told else '.'}",)


def write_record(resolved: Resolved, record: str | Path) -> None:
    """Writes what was resolved to the step's output, for people."""
    names = ("digest", "uri", "data", "champion", "registry", "model_name", "words")
    text = {name: getattr(resolved, name) for name in names}
    if not storage.is_remote(str(record)):
        Path(record).parent.mkdir(parents=True, exist_ok=True)
    storage.overwrite(str(record), (json.dumps({**text, **resolved.metadata}, indent=1) + "\n").encode())


def _header(run: RunPins) -> JsonObject:
    return {name: getattr(run, name) for name in ("pipeline", "project", "as_of", "request", "seen")}


def _written(
    folder: str, data: DataPins, champion: ChampionPins | None, header: JsonObject, words: tuple[str, ...],
    dry_run: bool,
) -> Resolved:  # fmt: skip
    """Writes the three documents, that of the run last: what it names is there."""
    uris = [store.save(folder, document, dry_run=dry_run) if document else "" for document in (data, champion)]
    run = RunPins(data=pinned.digest(uris[0]), champion=pinned.digest(uris[1]), **header)
    store.save(folder, run, dry_run=dry_run)
    return _outputs(run, folder, words, data)


def _outputs(run: RunPins, folder: str, words: tuple[str, ...], data: DataPins) -> Resolved:
    digest = store.digest(run)
    return Resolved(
        digest=digest,
        uri=f"{folder}/{digest}.json",
        data=f"{folder}/{run.data}.json",
        champion=f"{folder}/{run.champion}.json" if run.champion else "",
        words=words,
        metadata={"files": len(data.objects) + len(data.files), "seen": run.seen, "as_of": run.as_of},
    )


# ---- the pins of an earlier run, taken by a run of the same request: verified first


@dataclass(frozen=True)
class Pins:
    """The three documents of one run."""

    run: RunPins
    data: DataPins
    champion: ChampionPins | None

    def renewed(self, epoch: int) -> "Pins":
        """The same in another cache epoch: nothing that was computed with them is taken from the cache."""
        champion = self.champion.model_copy(update={"epoch": epoch}) if self.champion else None
        return Pins(self.run, self.data.model_copy(update={"epoch": epoch}), champion)


def take_earlier(uri: str, request: Request, *, pipeline: str, project: str, as_of: str) -> Pins:
    """The pins at `uri`.

    Raises:
        UserError: they are not there, not as they were written, or of another project, pipeline or request.
    """
    uri = storage.uri(uri)
    run = store.load(uri, RunPins)
    check_earlier(uri, run, request, as_of=as_of)
    if run.project != project:
        its, ours = (f"the project {number}" if number else "a run on one machine" for number in (run.project, project))
        raise UserError(f"pins = {uri} are of {its}, and this is {ours}: leave `pins` empty.")
    if RENAMED.get(run.pipeline, run.pipeline) != pipeline:
        raise UserError(f"pins = {uri} are of the pipeline {run.pipeline}, not of {pipeline}: leave `pins` empty.")
    folder = uri.rpartition("/")[0]
    champion = store.load(f"{folder}/{run.champion}.json", ChampionPins) if run.champion else None
    return Pins(run, store.load(f"{folder}/{run.data}.json", DataPins), champion)


def check_earlier(uri: str, run: RunPins, request: Request, *, as_of: str) -> None:
    """Raises UserError if the pins are of something else than what is asked for."""
    for name, theirs in run.request.model_dump().items():
        ours = getattr(request, name)
        if theirs != ours:
            raise UserError(
                f"pins = {uri} are of a run with {name} = {theirs!r}, and this one asks for {ours!r}: pins are taken "
                "for the same request only. Leave `pins` empty."
            )
    if as_of.strip() and as_of.strip() != run.as_of:
        raise UserError(
            f"pins = {uri} are of as_of = {run.as_of!r}, not of {as_of.strip()!r}: leave one of them empty."
        )
