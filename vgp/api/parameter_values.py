"""Values of Python as a shell gives them to a pipeline, and what a shell is told in the words of Python."""

import json
import re
from pathlib import Path
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError


def texts(parameters: JsonObject | None, more: JsonObject) -> list[str]:
    """The parameters as --set takes them. Raises RequestError for one that is given twice, or that cannot be one."""
    both = sorted(set(parameters or {}) & set(more))
    if both:
        raise RequestError(f"{both[0]} is given twice: in parameters, and by name.")
    return [f"{name}={_text(name, value)}" for name, value in {**(parameters or {}), **more}.items()]


def _text(name: str, value: Any) -> str:
    """A value as --set takes it: text as it is, everything else as JSON.

    Raises:
        RequestError: it is nothing that JSON has, or a class that no other process can import.
    """
    if isinstance(value, type):
        return _class(name, value)
    if isinstance(value, str | Path):
        return str(value)
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise RequestError(
            f"{name} is a {type(value).__name__}: a parameter is text, a number, true or false, or made of lists and "
            "dictionaries of these."
        ) from None


def _class(name: str, value: type) -> str:
    if value.__module__ == "__main__":
        raise RequestError(
            f"{name} = {value.__qualname__} is defined in this notebook or script, which no other process can import: "
            "put it into a file (in a notebook the cell's first line %%writefile my_task.py) and import it from there."
        )
    return f"{value.__module__}:{value.__qualname__}"


def in_python(error: RequestError) -> str:
    """The message without the way in which a shell gives parameters."""
    return re.sub(r"--(?:set )?(?=[a-z])", "", str(error))
