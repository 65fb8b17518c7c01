"""The errors in data, pins, `as_of` and champion that can be found before a run starts.

Local files are checked; buckets are not listed.
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
    """Checks the parameters of a run.

    Raises:
        UserError: local data does not exist, the data has an unsupported scheme, the local champion or registry is
            invalid, `as_of` is invalid, or the pins belong to another request.
    """
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
    if not pinned.read_digest(pins):
        raise UserError(store.not_pins(pins))
    if not storage.is_remote(storage.uri(pins)):
        resolve.check_earlier(pins, store.load(pins, RunPins), request, as_of=as_of)


def _check_registry(request: Request) -> None:
    """Raises UserError if a local registry cannot be read or written, has another task, or lacks the champion.

    The step `resolve` checks a registry in a bucket.
    """
    model = documents.choose_model_name(request.model_name, request.task, request.task_options)
    if request.registry and not storage.is_remote(storage.uri(request.registry)):
        registry = reigning.open_registry(request.registry, model)
        record = reigning.read(registry, request.task, "")
        registry.require_writable()
        if request.champion and not reigning.is_folder(request.champion):
            reigning.find_version(record, request.champion)


def _check_files(work: Task, parameter: str) -> None:
    """Raises UserError if a local pattern in `data` matches no file of the task, if the first file of a table lacks a
    column, or if `data` is empty for a table without default data."""
    if not parameter.strip() and isinstance(work, TabularTask) and type(work).package is Task.package:
        work.default_data()
    local = [
        part
        for part in storage.parts(parameter)
        if not storage.is_remote(storage.uri(part)) and not names.is_bigquery(part)
    ]
    if local and work.finds_files:
        files = work.files(",".join(local))
        if isinstance(work, TabularTask):
            with TemporaryDirectory() as scratch:
                Files(files, work.schema, work.reading, Path(scratch)).check_first()
