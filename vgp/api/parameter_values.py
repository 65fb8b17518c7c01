"""Converts Python values to the text of pipeline parameters, and command-line hints in messages to Python."""

import json
import re
from pathlib import Path
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError


def format_parameters(parameters: JsonObject | None, more: JsonObject) -> list[str]:
    """Returns the parameters as `--set` texts. Raises RequestError for a duplicate or an unsupported value."""
    both = sorted(set(parameters or {}) & set(more))
    if both:
        raise RequestError(f"{both[0]} is given twice: in `parameters` and as a keyword.")
    return [f"{name}={_format_value(name, value)}" for name, value in {**(parameters or {}), **more}.items()]


def _format_value(name: str, value: Any) -> str:
    """Returns a value as `--set` text: strings unchanged, everything else as JSON.

    Raises:
        RequestError: the value has no JSON form, or is a class that other processes cannot import.
    """
    if isinstance(value, type):
        return _format_class(name, value)
    if isinstance(value, str | Path):
        return str(value)
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise RequestError(
            f"{name} is a {type(value).__name__}: a parameter must be text, a number, a boolean, or lists and "
            "dictionaries of these."
        ) from None


def _format_class(name: str, value: type) -> str:
    if value.__module__ == "__main__":
        raise RequestError(
            f"{name} = {value.__qualname__} is defined in this notebook or script, which other processes cannot "
            "import. Write it to a file (in a notebook: %%writefile my_task.py) and import it from there."
        )
    return f"{value.__module__}:{value.__qualname__}"


def translate_options(error: RequestError) -> str:
    """Returns the message with Python syntax in place of `--set`."""
    return re.sub(r"--(?:set )?(?=[a-z])", "", str(error))
