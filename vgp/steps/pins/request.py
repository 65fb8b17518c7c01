"""What can be told to be wrong about data, pins, `as_of` and the champion before anything starts.

Files of this machine are looked for; of a bucket nothing is listed.
"""

from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from vgp.base.exits import UserError
from vgp.base.storage import finding, pinned, storage
from vgp.base.storage.bigquery import names
from vgp.data.sources.table_files import Files
from vgp.data.tables.task_methods import check_bigquery_names
from vgp.data.tabular import TabularTask
from vgp.data.task import Task
from vgp.protocol import moment
from vgp.protocol import pins as store
from vgp.protocol.pins import Request, RunPins
from vgp.registry import documents, reigning
from vgp.steps.pins import data, resolve, weights


def check(work: Task, request: Request, *, as_of: str, pins: str) -> None:
    """Raises UserError for data that is not there, or of a place that nothing is read from, a champion or a registry on
    this machine that is none, a wrong `as_of`, or pins of something else."""
    for part in storage.parts(request.data):
        finding.refuse_scheme(part)
    if not pins:
        _check_files(work, request.data)
    reigning.check(request.champion)
    if reigning.is_folder(request.champion):
        reigning.check_folder(request.champion)
    _check_registry(request)
    weights.check(request.warm_start)
    tables, _ = names.split_bigquery(request.data)
    for part in tables:
        if names.is_table(part):
            names.parse(part)
    if tables and isinstance(work, TabularTask) and work.engine != "duckdb":
        check_bigquery_names(work)
    data.check_moment(work, request.data, moment.choose_moment(as_of, "", datetime.now(UTC)))
    if not pins:
        return
    if not pinned.digest(pins):
        raise UserError(store.not_pins(pins))
    if not storage.is_remote(storage.uri(pins)):
        resolve.check_earlier(pins, store.load(pins, RunPins), request, as_of=as_of)


def _check_registry(request: Request) -> None:
    """Raises UserError if a registry on this machine that was given cannot be read or written, is of another task, or
    lacks the champion; of one in a bucket its step resolve tells."""
    model = documents.choose_model_name(request.model_name, request.task, request.task_options)
    if request.registry and not storage.is_remote(storage.uri(request.registry)):
        registry = reigning.open_registry(request.registry, model)
        record = reigning.read(registry, request.task, "")
        registry.require_writable()
        if request.champion and not reigning.is_folder(request.champion):
            reigning.find_version(record, request.champion)


def _check_files(work: Task, given: str) -> None:
    """Raises UserError if a part that names files of this machine matches none, or none that the task takes; if the
    first file of a table lacks a column; or if nothing is given to a table that has no data of its own."""
    if not given.strip() and isinstance(work, TabularTask) and type(work).package is Task.package:
        work.default_data()
    here = [
        part
        for part in storage.parts(given)
        if not storage.is_remote(storage.uri(part)) and not names.is_bigquery(part)
    ]
    if here and work.finds_files:
        found = work.files(",".join(here))
        if isinstance(work, TabularTask):
            with TemporaryDirectory() as scratch:
                Files(found, work.schema, work.reading, Path(scratch)).check_first()
