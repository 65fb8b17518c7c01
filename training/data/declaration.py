"""Checks of what a task declares, before any file is opened."""

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from training.errors import UserError

if TYPE_CHECKING:
    from training.data.tabular import TabularTask


def check_declaration(task: "type[TabularTask]") -> None:
    """Raises UserError if the names that the class gives do not fit its schema."""
    fields = {field.name: field for field in task.schema}
    if not fields:
        raise UserError(f"{task.__name__} declares no schema: name the columns of the CSV files and their types.")
    for attribute, names in (("key", task.key), ("time", [task.time]), ("target", [task.target])):
        for name in filter(None, names):
            if name not in fields:
                raise UserError(f"{task.__name__}.{attribute} names {name!r}. {nearest(name, fields)}")
    _check_target(task)
    for name in filter(None, (*task.key, task.time)):
        if fields[name].nullable:
            raise UserError(f"{task.__name__}: {name} is a key or the time and may not be nullable.")
    if task.time and not pa.types.is_temporal(fields[task.time].type) and not _overrides(task, "dates"):
        raise UserError(f"{task.__name__}.time must be a date or a timestamp; {task.time} is {fields[task.time].type}.")


def _check_target(task: "type[TabularTask]") -> None:
    if not task.target and not _overrides(task, "labels"):
        raise UserError(f"{task.__name__} needs `target`, the column of the outcome, or a method `labels`.")
    if any(field.name == task.target and field.known == "before" for field in task.schema):
        raise UserError(f"{task.__name__}: the target {task.target} must be declared with known='after'.")


def _overrides(task: "type[TabularTask]", method: str) -> bool:
    from training.data.tabular import TabularTask

    return getattr(task, method) is not getattr(TabularTask, method)


def check_options(name: str, options: Iterable[str], settings: Mapping[str, Any]) -> None:
    """Raises UserError for an option that the task does not have."""
    for option in options:
        if option not in settings:
            raise UserError(f"{name} has no option {option!r}. {nearest(option, settings)}")


def nearest(name: str, choices: Iterable[str]) -> str:
    """Did-you-mean, or all there is to choose from."""
    known = list(choices)
    match = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {match[0]}?" if match else f"There is {', '.join(known)}."
