"""A request -> its pins: data as objects and files, windows as dates, the champion as its files."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.protocol import moment
from vgp.protocol import pins as store
from vgp.protocol.moment import epoch
from vgp.protocol.pins import ChampionPins, DataPins, Request, RunPins
from vgp.registry import reigning
from vgp.registry.documents import Record
from vgp.registry.registry import Registry
from vgp.steps.pins import data, earlier, weights


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
    metadata: Mapping[str, Any] = field(default_factory=dict)


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
        taken = earlier.take(pins, request, pipeline=pipeline, project=project, as_of=as_of)
        words = (f"pins: those of an earlier run, {pins}.",)
        if taken.data.epoch == epoch(now):
            return _outputs(taken.run, pins.rpartition("/")[0], words, taken.data)
        renewed = taken.renewed(epoch(now))
        return _written(folder, renewed.data, renewed.champion, _header(taken.run), words, dry_run)
    when = moment.chosen(as_of, scheduled, now)
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
    version = reigning.version(record, given)
    if version is None:
        return None, (f"champion: {record.model} has none yet, so the baseline is the one to beat.",)
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


def _header(run: RunPins) -> dict[str, Any]:
    return {name: getattr(run, name) for name in ("pipeline", "project", "as_of", "request", "seen")}


def _written(
    folder: str, data: DataPins, champion: ChampionPins | None, header: Mapping[str, Any], words: tuple[str, ...],
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
