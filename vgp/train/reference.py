"""Every setting of a training as a table: `python -m vgp.steps settings`, and docs/training-settings.md."""

import json
from collections.abc import Iterator
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from vgp.train.config import OPERATIONAL, TrainConfig

#: How annotated_types calls a bound, and how a reader does.
_BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def table() -> str:
    """Markdown: a row for each field of `TrainConfig` with its values, its default and its docstring."""
    rows = [f"| `{name}` | {_values(field)} | {_default(field)} | {_meaning(name, field)} |"
            for name, field in TrainConfig.model_fields.items()]  # fmt: skip
    return "\n".join(["| setting | values | default | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _values(field: FieldInfo) -> str:
    """Its choices, or its type with the bounds of its values."""
    bounds = [f"{sign} {_bound(getattr(rule, bound))}" for rule in field.metadata
              for bound, sign in _BOUNDS.items() if getattr(rule, bound, None) is not None]  # fmt: skip
    return ", ".join([*_kinds(field.annotation), *bounds])


def _kinds(annotation: object) -> Iterator[str]:
    names: dict[object, str] = {
        bool: "`true`, `false`", int: "integer", float: "number", str: "text", dict: "object", list: "list",
        type(None): "null",
    }  # fmt: skip
    if annotation in names:
        yield names[annotation]
    elif get_origin(annotation) is Literal:
        yield from (f"`{str(choice).lower()}`" for choice in get_args(annotation))  # true as JSON has it
    elif get_origin(annotation) in names:
        yield names[get_origin(annotation)]
    else:
        for member in get_args(annotation):
            yield from _kinds(member)


def _bound(value: float) -> str:
    exponent = value.bit_length() - 1 if isinstance(value, int) else 0
    return f"2^{exponent}" if exponent > 30 and value == 2**exponent else str(value)


def _default(field: FieldInfo) -> str:
    default = field.default
    return f"`{json.dumps(default).strip(chr(34))}`" if default != "" else ""


def _meaning(name: str, field: FieldInfo) -> str:
    """Its docstring in one line, and whether a resumed run may have another value."""
    sentence = " ".join((field.description or "").split())
    return f"{sentence} *" if name in OPERATIONAL else sentence
