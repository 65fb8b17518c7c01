"""Prepares a few rows as the pipeline does, in a temporary folder that is deleted with them."""

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vgp.base.exits import UserError
from vgp.data import prepare, tasks
from vgp.data.tabular import TabularTask
from vgp.data.task import Task
from vgp.testing.parts import Parts


def prepared(
    task: type[Task] | str, data: str | Path | pa.Table | Iterable[Mapping[str, Any]] = "", **options: Any
) -> Parts:
    """Prepares data for a task, with every check of the pipeline, and returns the parts to be tested.

    Args:
        task: A class at the top of a module or notebook, a shipped task, or `module:Class`.
        data: Files as for a run, "" for the task's own; or rows: an Arrow table, a pandas frame, dictionaries.
        options: Options of the task.

    Raises:
        UserError: the task, an option or the data is invalid.
    """
    name = task if isinstance(task, str) else _name(task)
    folder = Path(tempfile.mkdtemp(prefix="testing-"))
    try:
        files = str(data) if isinstance(data, str | Path) else _write_rows(name, data, folder)
        prepare.prepare(name, files, folder / "dataset", options=options, workers=1)
        parts = Parts.opened(folder / "dataset")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    weakref.finalize(parts, shutil.rmtree, folder, ignore_errors=True)
    return parts


def _name(task: type[Task]) -> str:
    if "." in task.__qualname__:
        raise UserError(f"{task.__qualname__} is a class within a function: move it to the top level of its module.")
    return f"{task.__module__}:{task.__name__}"


def _write_rows(name: str, rows: Any, folder: Path) -> str:
    """Writes rows to a Parquet file with the types that the task declares; returns its path."""
    work = tasks.find(name)
    fields = list(getattr(work, "schema", ())) if issubclass(work, TabularTask) else []
    path = folder / "rows.parquet"
    try:
        pq.write_table(_build_table(rows, fields), path)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise UserError(f"the rows do not fit the columns of {name}: {error}") from None
    return str(path)


def _build_table(rows: Any, fields: list[Any]) -> pa.Table:
    if isinstance(rows, pa.Table):
        return rows
    if hasattr(rows, "iloc"):  # a pandas frame; pandas may not be installed
        return pa.Table.from_pandas(rows, preserve_index=False)
    records = [dict(row) for row in rows]
    types = {field.name: field.type for field in fields}
    names = list(dict.fromkeys(name for row in records for name in row))
    arrays = {}
    for name in names:
        try:
            arrays[name] = pa.array([row.get(name) for row in records], types.get(name))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise UserError(f"column {name}, of type {types.get(name, 'none')}: {error}") from None
    return pa.table(arrays)
