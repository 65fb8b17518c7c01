"""The pins of the data: its files as they are, or as they were at a moment, and the windows in dates.

The days on which tables and queries of BigQuery have rows are asked there, and remembered, for what is pinned stays.
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

#: Under this name the days of all relations together are remembered.
_NAME = "tables"


@dataclass(frozen=True)
class PinnedData:
    """The document, and what is said about it."""

    document: DataPins
    seen: Seen
    words: tuple[str, ...]


def pin(
    request: Request, *, pipeline: str, run: str, moment: Moment | None, epoch: int, folder: str, dry_run: bool,
    predicted: bool = False,
) -> PinnedData:  # fmt: skip
    """Pins the data of a request, as it was at the moment if that can be seen.

    Args:
        predicted: Whether its rows are only predicted: no window parts them, and they may lack columns.

    Raises:
        UserError: the task, its options or the data is wrong, or of the moment nothing can be seen.
    """
    work = tasks.load(request.task, request.task_options)
    if not predicted:
        check_moment(work, request.data, moment)
    fields, files, past = _found(work, request, run, moment, folder)
    seen = _seen(work, fields, moment, past)
    options = request.task_options | _models(work, epoch, folder, dry_run)
    relations = fields.get("relations", ())
    words = [] if predicted else _looked_at(work, relations, run)
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
        options |= _dated(windows, present, moment, seen)
    begun = request.warm_start and store.save(folder, weights.pin(request.warm_start), dry_run=dry_run)
    document = DataPins(
        pipeline=pipeline, task=task_names.spec(request.task), options=options, weights=begun, epoch=epoch, **fields
    )
    return PinnedData(
        document, seen, (*_words(document, options, request), *words, *_past_words(moment, seen, document))
    )


def check_moment(work: Task, data: str, moment: Moment | None) -> None:
    """Raises UserError if nothing of the moment that somebody asked for can be seen, wherever the data lies."""
    if not (moment and moment.explicit):
        return
    if windows := _windows(work):
        if windows.end() > moment.day + 1:
            last = date_of(windows.end() - 1)
            raise UserError(f"{moment.text}: the windows reach to {last}, which had not come then.")
    elif not any(storage.is_remote(part) or names.is_table(part) for part in storage.parts(data)):
        raise _nothing_seen(work, moment)


def _windows(work: Task) -> Windows | None:
    """The windows of time that split the task's rows, if they do."""
    return work.split.windows if isinstance(work, TabularTask) and isinstance(work.split, ByTime) else None


def _nothing_seen(work: Task, moment: Moment) -> UserError:
    return UserError(
        f"{moment.text}: {type(work).__name__} is not split by windows of time, and the data does not lie in a bucket "
        "that keeps older versions of its objects (object versioning), nor in tables of BigQuery that show that time "
        "(7 days back), so nothing of that time can be seen."
    )


def _found(
    work: Task, request: Request, run: str, moment: Moment | None, folder: str
) -> tuple[JsonObject, Sequence[File], Past | None]:
    """The fields that say what is read, the files to read dates from, and what was seen of the moment."""
    data = request.data
    if not work.finds_files or (not data.strip() and _own_data_is_unknown(work)):
        return {"unpinned": True, "asked": data, "run": run}, (), None
    if not data.strip() and (package := work.package()):
        windows = _windows(work)
        files = work.files(data) if windows and windows.relative else ()
        return {"package": Package(name=package[0], version=package[1])}, files, None
    past = Past(moment.time) if moment else None
    tables, rest = names.split_bigquery(data) if isinstance(work, TabularTask) else ([], data)
    with storage.as_of(past):
        relations = _relations(tables, past, folder) if tables else ()
        files = sorted(map(storage.with_version, work.files(rest)), key=lambda f: f.path) if rest or not tables else []
    if isinstance(work, TabularTask):
        choose_engine(work, engine_choice.Source(files, relations))
    return {"objects": _objects(files), "files": _files(files), "relations": relations}, files, past


def _relations(tables: Sequence[str], past: Past | None, folder: str) -> tuple[PinnedRelation, ...]:
    allowed = engines().bigquery
    relations = lookup.Lookup(client.project(allowed.project)).pinned(tables, past)
    names.check_one_place(relations, allowed.location)
    names.check_bucket(relations, folder)
    return relations


def _looked_at(work: Task, relations: Sequence[PinnedRelation], run: str) -> list[str]:
    """What is said of tables and queries, whose columns and size a dry run tells: nothing of it is billed."""
    if not relations or not isinstance(work, TabularTask):
        return []
    jobs = Jobs(engines().bigquery, relations[0].location, Owner(run, "resolve"))
    sources = bigquery_source.check_relations(relations, work.schema, jobs)
    jobs.check(
        sources[0].name if len(sources) == 1 else f"{len(sources)} sources", sum(s.estimate.bytes for s in sources)
    )
    return [f"BigQuery, {s.relation.location}: reading {s.name} once is {s.estimate.words}." for s in sources]


def _models(work: Task, epoch: int, folder: str, dry_run: bool) -> dict[str, str]:
    """The options that name a model, with the URI of its pins in place of its folder."""
    return {
        name: store.save(folder, reigning.pin_folder(work.options[name], epoch, name=name), dry_run=dry_run)
        for name in work.model_options
        if work.options.get(name) and not pinned.digest(work.options[name])
    }


def _own_data_is_unknown(work: Task) -> bool:
    """Whether nothing tells what a task reads when no data is given; of a script that brings its own nothing does."""
    return work.as_they_are or (work.package() is None and type(work).files is Task.files)


def _objects(files: Sequence[File]) -> tuple[PinnedObject, ...]:
    return tuple(
        PinnedObject(name=_object_name(file), generation=file.generation, bytes=file.bytes, title=file.title)
        for file in files
        if file.generation
    )


def _object_name(file: File) -> str:
    """Without the generation that a user may have given with it."""
    return file.path.removesuffix(f"#{file.generation}")


def _files(files: Sequence[File]) -> tuple[PinnedFile, ...]:
    return tuple(
        PinnedFile(
            path=os.path.abspath(os.path.expanduser(file.path)), bytes=file.bytes,
            modified_ns=file.version.modified_ns, title=file.title,
        )
        for file in files
        if file.version
    )  # fmt: skip


def _seen(work: Task, fields: JsonObject, moment: Moment | None, past: Past | None) -> Seen:
    if moment is None:
        return ""
    if past and past.whole:
        return "state"
    if _windows(work) and not fields.get("unpinned"):
        return "windows"
    if moment.explicit:
        raise _nothing_seen(work, moment)
    return ""


def _dated(windows: Windows, present: Collection[int], moment: Moment | None, seen: Seen) -> dict[str, str]:
    """The options `train` and `test` in dates."""
    if not present:
        raise UserError("the input has no rows: there is nothing to learn or to test.")
    if moment is None:
        train, test = windows.pinned(present, max(present))
        return {"train": train, "test": test}
    last = moment.day if seen == "state" else moment.day_over
    if min(present) > last:
        raise UserError(f"{moment.text}: the data begins on {date_of(min(present))}, so nothing of it was there yet.")
    try:
        train, test = windows.pinned(present, last)
    except UserError as error:
        raise UserError(f"{moment.text}: {error}" if last < max(present) else str(error)) from None
    return {"train": train, "test": test}


def _words(document: DataPins, options: JsonObject, request: Request) -> list[str]:
    words = [_what(document)]
    if options.keys() & {"train", "test"} and options != request.task_options:
        words.append(f"windows: train {options['train']}, test {options['test']}.")
    return words


def _what(document: DataPins) -> str:
    if document.unpinned:
        return (
            f"data: {document.asked or 'its own'}, of which {document.task} tells no version: this run reads it anew, "
            "and nothing is taken from the cache."
        )
    if document.package:
        return f"data: {document.package.name} {document.package.version}."
    sizes = [item.bytes for item in document.objects] + [item.bytes for item in document.files]
    counted = f"{len(sizes):,} file{'s' * (len(sizes) != 1)}, {sum(sizes):,} bytes"
    relations = [relation.name for relation in document.relations]
    return f"data: {', '.join([*relations, *([counted] if sizes or not relations else [])])}."


def _past_words(moment: Moment | None, seen: Seen, document: DataPins) -> list[str]:
    if not moment or not seen:
        return []
    if seen == "state":
        shown = ["the objects are those that were there then, as the bucket's versions show"] * bool(document.objects)
        shown += ["the tables are read as they were then"] * bool(document.relations)
        return [f"{moment.text}: {'; '.join(shown)}."]
    now = (
        "the data is that of now, since nothing shows what it was (object versioning of a bucket does, and BigQuery "
        "for 7 days)"
    )
    return [f"{moment.text}: only the windows are of that time; {now}."]


# ---- the days on which tables and queries of BigQuery have rows


def _days_of_relations(
    task: TabularTask, relations: Sequence[PinnedRelation], folder: str, run: str, *, dry_run: bool = False
) -> set[int]:
    """The days of all rows, from 1970-01-01.

    Args:
        folder: Where the pins lie: there the days are remembered, so that an unchanged table is not asked again.
        run: In its name the query runs.
        dry_run: Whether nothing is written.

    Raises:
        UserError: BigQuery refuses the query, or it would read more than is allowed.
    """
    memory = f"{folder}/days-{_key(task, relations)}.json" if storage.is_remote(folder) else ""
    if memory and (known := data_days.read_cached_days(memory)):
        return data_days.expand_days(known[_NAME])
    fields = features.find_day_columns(task)
    settings, owner = engines().bigquery, Owner(run, "resolve")
    with (
        BigQuery.opened(relations, fields, settings, owner, values=False) as engine,
        failed_rows.name_errors(task, engine),
    ):
        rows = engine.source()
        counted = engine.read(rows.select(day=task_methods.call_method(task, "days", rows).epoch_days()).distinct())
    found = {day for day in counted["day"].to_pylist() if day is not None}
    if memory and not dry_run:
        data_days.cache_days(memory, {_NAME: data_days.stretches(found)})
    return found


def _key(task: TabularTask, relations: Sequence[PinnedRelation]) -> str:
    text = "".join([data_days.key(task), *(relation.sha256 for relation in relations)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]
