"""Data as Python text: literals and calls, on one line where they are short, in plain ASCII."""

import json
import math
from typing import Any


class Name(str):
    """Python that is written as it is."""


def call(name: str, arguments: dict[str, Any]) -> str:
    lines = [f"    {argument}={literal(value, 1)},\n" for argument, value in arguments.items()]
    return f"{name}(\n{''.join(lines)})" if lines else f"{name}()"


def literal(value: Any, depth: int = 0) -> str:
    """The value as Python: short lists and objects on one line, in plain ASCII."""
    if isinstance(value, Name):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value in ({}, []) or isinstance(value, bool | int | float | None):
        return repr(value)
    if not isinstance(value, dict | list):
        return json.dumps(str(value)).replace("\x7f", "\\x7f")
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    if isinstance(value, dict):
        items = [f"{literal(str(key))}: {literal(item, depth + 1)}" for key, item in value.items()]
    else:
        items = [literal(item, depth + 1) for item in value]
    flat = ", ".join(items)
    if "\n" not in flat and len(flat) + 4 * depth < 90:
        return f"{opening}{flat}{closing}"
    pad = "    " * (depth + 1)
    return f"{opening}\n{''.join(f'{pad}{item},{chr(10)}' for item in items)}{'    ' * depth}{closing}"
