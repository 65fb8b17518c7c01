"""The pins of the data: its files now or at a past moment, and the windows in dates.

The days on which BigQuery tables and queries have rows are read once and cached, because pinned data is immutable.
"""

import hashlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from vgp.base.documents.json_text import JsonObject
from vgp.base.engine_settings import engines
from vgp.base.exits import UserError
from vgp.base.storage import pinned, storage
from vgp.base.storage.bigquery import client, lookup, names
from vgp.base.storage.bigquery.jobs import Jobs, Owner
from vgp.base.storage.finding import Past
from vgp.base.storage.pinned import PinnedFile, PinnedObject, PinnedRelation
from vgp.base.storage.storage import File
from vgp.data import data_days, task_names, tasks
from vgp.data.engines import bigquery_source, engine_choice
from vgp.data.engines.bigquery import BigQuery
from vgp.data.engines.engine_choice import choose_engine
from vgp.data.periods import date_of
from vgp.data.splits import ByTime
from vgp.data.tables import failed_rows, features, task_methods
from vgp.data.tabular import TabularTask
from vgp.data.task import Task
from vgp.data.windows import Windows
from vgp.protocol import pins as store
from vgp.protocol.moment import Moment
from vgp.protocol.pins import DataPins, Package, Request, Seen
from vgp.registry import reigning
from vgp.steps.pins import weights

#: The key of the cached days, which are those of all relations together.
_NAME = "tables"


@dataclass(frozen=True)
class PinnedData:
    """The pins of the data, with sentences for the log."""

    document: DataPins
    seen: Seen
    words: tuple[str, ...]


def pin(
    request: Request, *, pipeline: str, run: str, moment: Moment | None, epoch: int, folder: str, dry_run: bool,
    predicted: bool = False,
) -> PinnedData:  # fmt: skip
    """Pins the data of a request, at the moment if its past is known.

    Args:
        predicted: Whether the rows are only predicted; then no window splits them, and columns may be missing.

    Raises:
        UserError: the task, its options or the data is invalid, or the data of the moment is unknown.
    """
    work = tasks.load(request.task, request.task_options)
    if not predicted:
        check_moment(work, request.data, moment)
    fields, files, past = _find_sources(work, request, run, moment, folder)
    seen = _choose_view(work, fields, moment, past)
    options = request.task_options | _pin_models(work, epoch, folder, dry_run)
    relations = fields.get("relations", ())
    words = [] if predicted else _check_relations(work, relations, run)
    if (
        not predicted
        and (windows := _windows(work))
        and windows.relative
        and isinstance(work, TabularTask)
        and (files or relations)
    ):
        present = data_days.read_days(work, files, folder, dry_run=dry_run) if files else set()
        if relations:
            present |= _days_of_relations(work, relations, folder, run, dry_run=dry_run)
        options |= _windows_in_dates(windows, present, moment, seen)
    initial = request.warm_start and store.save(folder, weights.pin(request.warm_start), dry_run=dry_run)
    document = DataPins(
        pipeline=pipeline, task=task_names.spec(request.task), options=options, weights=initial, epoch=epoch, **fields
    )
    return PinnedData(
        document,
        seen,
        (*_describe_pins(document, options, request), *words, *_describe_moment(moment, seen, document)),
    )


def check_moment(work: Task, data: str, moment: Moment | None) -> None:
    """Raises UserError if the data cannot be read at the moment that the user set."""
    if not (moment and moment.explicit):
        return
    if windows := _windows(work):
        if windows.end() > moment.day + 1:
            last = date_of(windows.end() - 1)
            raise UserError(
                f"{moment.text}: the windows end on {last}, which is later. Choose earlier windows or a later as_of."
            )
    elif not any(storage.is_remote(part) or names.is_table(part) for part in storage.parts(data)):
        raise _unknown_past_error(work, moment)


def _windows(work: Task) -> Windows | None:
    """Returns the time windows that split the task's rows; None for another split."""
    return work.split.windows if isinstance(work, TabularTask) and isinstance(work.split, ByTime) else None


def _unknown_past_error(work: Task, moment: Moment) -> UserError:
    return UserError(
        f"{moment.text}: the data of that time is unknown, because {type(work).__name__} has no time windows, and the "
        "data is neither in a bucket with object versioning nor in BigQuery tables within their 7 days of time travel. "
        "Leave as_of empty."
    )


def _find_sources(
    work: Task, request: Request, run: str, moment: Moment | None, folder: str
) -> tuple[JsonObject, Sequence[File], Past | None]:
    """Returns the fields of the pins with the sources, the files to read dates from, and the past that was found."""
    data = request.data
    if not work.finds_files or (not data.strip() and _has_unknown_data(work)):
        return {"unpinned": True, "asked": data, "run": run}, (), None
    if not data.strip() and (package := work.package()):
        windows = _windows(work)
        files = work.files(data) if windows and windows.relative else ()
        return {"package": Package(name=package[0], version=package[1])}, files, None
    past = Past(moment.time) if moment else None
    tables, rest = names.split_bigquery(data) if isinstance(work, TabularTask) else ([], data)
    with storage.as_of(past):
        relations = _pin_relations(tables, past, folder) if tables else ()
        files = sorted(map(storage.with_version, work.files(rest)), key=lambda f: f.path) if rest or not tables else []
    if isinstance(work, TabularTask):
        choose_engine(work, engine_choice.Source(files, relations))
    return {"objects": _pin_objects(files), "files": _pin_files(files), "relations": relations}, files, past


def _pin_relations(tables: Sequence[str], past: Past | None, folder: str) -> tuple[PinnedRelation, ...]:
    allowed = engines().bigquery
    relations = lookup.Lookup(client.project(allowed.project)).pin(tables, past)
    names.check_one_place(relations, allowed.location)
    names.check_bucket(relations, folder)
    return relations


def _check_relations(work: Task, relations: Sequence[PinnedRelation], run: str) -> list[str]:
    """Checks the columns and sizes of tables and queries by dry runs, which are free; returns a sentence on each."""
    if not relations or not isinstance(work, TabularTask):
        return []
    jobs = Jobs(engines().bigquery, relations[0].location, Owner(run, "resolve"))
    sources = bigquery_source.check_relations(relations, work.schema, jobs)
    jobs.check(
        sources[0].name if len(sources) == 1 else f"{len(sources)} sources", sum(s.estimate.bytes for s in sources)
    )
    return [f"BigQuery, {s.relation.location}: reading {s.name} once is {s.estimate.words}." for s in sources]


def _pin_models(work: Task, epoch: int, folder: str, dry_run: bool) -> dict[str, str]:
    """Returns the task's options that name a model, with the URI of its pins instead of its folder."""
    return {
        name: store.save(folder, reigning.pin_folder(work.options[name], epoch, name=name), dry_run=dry_run)
        for name in work.model_options
        if work.options.get(name) and not pinned.read_digest(work.options[name])
    }


def _has_unknown_data(work: Task) -> bool:
    """Whether the task, such as a user's own script, reads data without declaring it if `data` is empty."""
    return work.as_they_are or (work.package() is None and type(work).files is Task.files)


def _pin_objects(files: Sequence[File]) -> tuple[PinnedObject, ...]:
    return tuple(
        PinnedObject(name=_object_name(file), generation=file.generation, bytes=file.bytes, title=file.title)
        for file in files
        if file.generation
    )


def _object_name(file: File) -> str:
    """Returns the object's name without the generation that the user may have appended."""
    return file.path.removesuffix(f"#{file.generation}")


def _pin_files(files: Sequence[File]) -> tuple[PinnedFile, ...]:
    return tuple(
        PinnedFile(
            path=os.path.abspath(os.path.expanduser(file.path)), bytes=file.bytes,
            modified_ns=file.version.modified_ns, title=file.title,
        )
        for file in files
        if file.version
    )  # fmt: skip


def _choose_view(work: Task, fields: JsonObject, moment: Moment | None, past: Past | None) -> Seen:
    """Returns how much of the past the run reads; raises UserError if it is nothing and the user set the moment."""
    if moment is None:
        return ""
    if past and past.whole:
        return "state"
    if _windows(work) and not fields.get("unpinned"):
        return "windows"
    if moment.explicit:
        raise _unknown_past_error(work, moment)
    return ""


def _windows_in_dates(windows: Windows, present: Collection[int], moment: Moment | None, seen: Seen) -> dict[str, str]:
    """Returns the options `train` and `test` with dates."""
    if not present:
        raise UserError("the data has no rows to train and test with. Check data.")
    if moment is None:
        train, test = windows.pin(present, max(present))
        return {"train": train, "test": test}
    last = moment.day if seen == "state" else moment.day_over
    if min(present) > last:
        raise UserError(f"{moment.text}: the data begins later, on {date_of(min(present))}.")
    try:
        train, test = windows.pin(present, last)
    except UserError as error:
        raise UserError(f"{moment.text}: {error}" if last < max(present) else str(error)) from None
    return {"train": train, "test": test}


def _describe_pins(document: DataPins, options: JsonObject, request: Request) -> list[str]:
    sentences = [_describe_data(document)]
    if options.keys() & {"train", "test"} and options != request.task_options:
        sentences.append(f"windows: train {options['train']}, test {options['test']}.")
    return sentences


def _describe_data(document: DataPins) -> str:
    if document.unpinned:
        return (
            f"data: {document.asked or 'of the task itself'}, which has no version that could be pinned "
            f"({document.task}): this run reads it again, without cache hits."
        )
    if document.package:
        return f"data: {document.package.name} {document.package.version}."
    sizes = [item.bytes for item in document.objects] + [item.bytes for item in document.files]
    counted = f"{len(sizes):,} file{'s' * (len(sizes) != 1)}, {sum(sizes):,} bytes"
    relations = [relation.name for relation in document.relations]
    return f"data: {', '.join([*relations, *([counted] if sizes or not relations else [])])}."


def _describe_moment(moment: Moment | None, seen: Seen, document: DataPins) -> list[str]:
    if not moment or not seen:
        return []
    if seen == "state":
        views = ["objects are read in their versions of that time"] * bool(document.objects)
        views += ["tables are read as of that time"] * bool(document.relations)
        return [f"{moment.text}: {'; '.join(views)}."]
    current = (
        "the data is the current data, because its past is unknown (a bucket keeps it with object versioning, BigQuery "
        "for 7 days)"
    )
    return [f"{moment.text}: only the windows are of that time; {current}."]


# ---- the days on which tables and queries of BigQuery have rows


def _days_of_relations(
    task: TabularTask, relations: Sequence[PinnedRelation], folder: str, run: str, *, dry_run: bool = False
) -> set[int]:
    """Returns the days of all rows as numbers from 1970-01-01.

    Args:
        folder: The folder of pins, in which the days are cached so that an unchanged table is not queried again.
        run: The name of the run, for the labels of the query.
        dry_run: Whether to write no cache.

    Raises:
        UserError: BigQuery refuses the query, or it would read more than the configured limit.
    """
    cache = f"{folder}/days-{_key(task, relations)}.json" if storage.is_remote(folder) else ""
    if cache and (cached := data_days.read_cached_days(cache)):
        return data_days.expand_days(cached[_NAME])
    fields = features.find_day_columns(task)
    settings, owner = engines().bigquery, Owner(run, "resolve")
    with (
        BigQuery.open(relations, fields, settings, owner, values=False) as engine,
        failed_rows.name_errors(task, engine),
    ):
        rows = engine.source()
        column = engine.read(rows.select(day=task_methods.call_method(task, "days", rows).epoch_days()).distinct())
    days = {day for day in column["day"].to_pylist() if day is not None}
    if cache and not dry_run:
        data_days.cache_days(cache, {_NAME: data_days.stretches(days)})
    return days


def _key(task: TabularTask, relations: Sequence[PinnedRelation]) -> str:
    text = "".join([data_days.key(task), *(relation.sha256 for relation in relations)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
