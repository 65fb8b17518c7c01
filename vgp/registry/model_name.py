"""What a model is called in the registry."""

import re
from collections.abc import Mapping
from typing import Any

from vgp.base.exits import UserError
from vgp.base.text.printable import quoted
from vgp.data import task_names
from vgp.registry.documents import MODEL_NAME

_LONGEST = 63


def chosen(given: str, task: str, options: Mapping[str, Any] | None = None) -> str:
    """The name that was given, else the task's.

    That is `flights` of the task flights, `churn-model` of `my_tasks.churn:ChurnModel`, and of the task of any table
    what it predicts: two tables are two models.

    Raises:
        UserError: no model can be called what was given.
    """
    check(given)
    return given or _of_task(task, options or {})


def check(given: str) -> None:
    """Raises UserError if something was given that no model can be called."""
    if given and not re.fullmatch(MODEL_NAME, given):
        raise UserError(
            f"model_name = {quoted(given)}: 1 to {_LONGEST} small letters, digits, - and _, a letter first, such as "
            f"{_slug(given) or 'flights'}."
        )


def _of_task(task: str, options: Mapping[str, Any]) -> str:
    full = task_names.spec(task)
    if full == task_names.SHIPPED["table"] and options.get("declaration"):
        from vgp.data.tasks.table.parsing import parse

        return _slug(parse(str(options["declaration"]), "declaration").target) or "table"
    return task_names.short(full) or _slug(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", full.rpartition(":")[2])) or "model"


def _slug(text: str) -> str:
    """The text in the letters that a name may have; "" if none is left."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return (slug if slug[:1].isalpha() or not slug else f"model-{slug}")[:_LONGEST].rstrip("-")
