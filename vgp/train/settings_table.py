"""The training settings as Markdown: `python -m vgp.steps settings`, and docs/reference/training-settings.md."""

import json
from collections.abc import Iterator
from typing import Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from vgp.train.train_config import OPERATIONAL, TrainConfig

#: The sign of each bound of the package annotated_types.
_BOUNDS = {"gt": ">", "ge": ">=", "lt": "<", "le": "<="}


def format_settings() -> str:
    """Returns a Markdown list with the values, default and docstring of each field of `TrainConfig`."""
    return "".join(
        f"- `{name}` ({_values(field)}{_format_default(field)}): {_description(name, field)}\n"
        for name, field in TrainConfig.model_fields.items()
    )


def _values(field: FieldInfo) -> str:
    """Returns the field's choices, or its type and bounds."""
    bounds = [f"{sign} {_bound(getattr(constraint, bound))}" for constraint in field.metadata
              for bound, sign in _BOUNDS.items() if getattr(constraint, bound, None) is not None]  # fmt: skip
    return ", ".join([*_list_type_names(field.annotation), *bounds])


def _list_type_names(annotation: object) -> Iterator[str]:
    names: dict[object, str] = {
        bool: "`true`, `false`", int: "integer", float: "number", str: "text", dict: "object", list: "list",
        type(None): "null",
    }  # fmt: skip
    if annotation in names:
        yield names[annotation]
    elif get_origin(annotation) is Literal:
        yield from (f"`{str(choice).lower()}`" for choice in get_args(annotation))  # JSON spells it true
    elif get_origin(annotation) in names:
        yield names[get_origin(annotation)]
    else:
        for member in get_args(annotation):
            yield from _list_type_names(member)


def _bound(value: float) -> str:
    exponent = value.bit_length() - 1 if isinstance(value, int) else 0
    return f"2^{exponent}" if exponent > 30 and value == 2**exponent else str(value)


def _format_default(field: FieldInfo) -> str:
    default = field.default
    return f"; default `{json.dumps(default).strip(chr(34))}`" if default != "" else ""


def _description(name: str, field: FieldInfo) -> str:
    """Returns the field's docstring on one line, with a star if a resumed run may change the value."""
    sentence = " ".join((field.description or "").split())
    return f"{sentence} *" if name in OPERATIONAL else sentence
