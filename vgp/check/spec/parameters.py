"""A parameter of a pipeline: its type, its default, and which values it takes."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_HALF = re.compile("[\ud800-\udfff]")
#: Vertex AI keeps numbers as doubles, which hold no larger integer exactly. Protobuf reads 100 messages inside each
#: other, and a JSON value is up to four of them a level.
_LARGEST, DEEPEST = 2**53, 20
_KINDS: dict[str, tuple[str, type]] = {
    "STRING": ("text", str),
    "NUMBER_INTEGER": ("an integer, at most 2^53", int),
    "NUMBER_DOUBLE": ("a number", float),
    "BOOLEAN": ("true or false", bool),
    "LIST": ("a JSON list", list),
    "STRUCT": ("a JSON object", dict),
}


@dataclass(frozen=True)
class Parameter:
    """What a pipeline declares of one parameter."""

    name: str
    type: str
    description: str = ""
    has_default: bool = False
    default: Any = None
    is_optional: bool = False

    @classmethod
    def read(cls, name: str, declared: Mapping[str, Any]) -> "Parameter":
        type_, default = str(declared.get("parameterType", "")), declared.get("defaultValue")
        if type_ == "NUMBER_INTEGER" and isinstance(default, float) and default.is_integer():
            default = int(default)  # kfp writes every number as a double
        has_default, optional = "defaultValue" in declared, bool(declared.get("isOptional"))
        return cls(name, type_, str(declared.get("description", "")), has_default, default, optional)

    @property
    def takes(self) -> str:
        """Its type in words."""
        return _KINDS[self.type][0] if self.type in _KINDS else self.type

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type, "default": self.default, "description": self.description}

    def fits(self, value: Any) -> bool:
        """Whether it takes the value, and Vertex AI gives it back as it is."""
        type_ = _KINDS[self.type][1] if self.type in _KINDS else object
        if isinstance(value, bool) and type_ is not bool and type_ is not object:
            return False
        return isinstance(value, int | float if type_ is float else type_) and _kept(value)

    def parsed(self, text: str) -> Any:
        """The value that a text gives; None if it gives none that fits."""
        try:
            value = self._read(text)
        except (ValueError, RecursionError):
            return None
        return value if value is not None and self.fits(value) else None

    def _read(self, text: str) -> Any:
        if self.type in ("NUMBER_INTEGER", "NUMBER_DOUBLE"):
            if "_" in text or not text.isascii():
                raise ValueError("Python's own ways to write a number")
            return int(text) if self.type == "NUMBER_INTEGER" else float(text)
        if self.type == "BOOLEAN":
            return {"true": True, "false": False}.get(text.lower())
        return json.loads(text) if self.type in ("LIST", "STRUCT") else text


def _kept(value: Any, level: int = 0) -> bool:
    """Whether a double, a protobuf message and UTF-8 hold the value."""
    if isinstance(value, dict | list):
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        return level < DEEPEST and all(_kept(item, level + 1) for item in inner)
    if isinstance(value, str):
        return value.isascii() or not _HALF.search(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and abs(value) <= _LARGEST)
