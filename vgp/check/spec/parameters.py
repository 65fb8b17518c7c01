"""The parameters of a pipeline, and the validation of a run's arguments."""

import copy
import json
import math
import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.nearest import nearest
from vgp.base.text.printable import PASSWORD
from vgp.protocol import placeholders

_HALF = re.compile("[\ud800-\udfff]")
#: Vertex AI stores numbers as doubles, which represent integers only up to this one. Protobuf reads 100 nested
#: messages, and a level of a JSON value uses up to four.
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
    """The declaration of one parameter."""

    name: str
    type: str
    description: str = ""
    has_default: bool = False
    default: Any = None
    is_optional: bool = False

    @classmethod
    def read(cls, name: str, declared: Mapping[str, object]) -> "Parameter":
        type_, default = str(declared.get("parameterType", "")), declared.get("defaultValue")
        if type_ == "NUMBER_INTEGER" and isinstance(default, float) and default.is_integer():
            default = int(default)  # kfp writes every number as a double
        has_default, optional = "defaultValue" in declared, bool(declared.get("isOptional"))
        return cls(name, type_, str(declared.get("description", "")), has_default, default, optional)

    @property
    def type_text(self) -> str:
        """Returns its type in words."""
        return _KINDS[self.type][0] if self.type in _KINDS else self.type

    def as_json(self) -> JsonObject:
        return {"name": self.name, "type": self.type, "default": self.default, "description": self.description}

    def fits(self, value: object) -> bool:
        """Whether the value has the type, and Vertex AI returns it unchanged."""
        type_ = _KINDS[self.type][1] if self.type in _KINDS else object
        if isinstance(value, bool) and type_ is not bool and type_ is not object:
            return False
        return isinstance(value, int | float if type_ is float else type_) and _is_exact(value)

    def parse(self, text: str) -> Any:
        """Returns the value of a text; None if it does not fit."""
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


def _is_exact(value: object, level: int = 0) -> bool:
    """Whether a double, a protobuf message and UTF-8 represent the value exactly."""
    if isinstance(value, dict | list):
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        return level < DEEPEST and all(_is_exact(item, level + 1) for item in inner)
    if isinstance(value, str):
        return value.isascii() or not _HALF.search(value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or (isinstance(value, int) and abs(value) <= _LARGEST)


Parameters = Mapping[str, Parameter]
#: Returns the members of JSON parameters; called only if an argument names one.
Members = Callable[[], Mapping[str, Collection[str]]]


def parse_arguments(parameters: Parameters, texts: Sequence[str], members: Members = dict) -> JsonObject:
    """Returns `name=value` and `name.member=value` texts as typed arguments.

    A member changes the JSON object of another argument, or else the parameter's default.

    Raises:
        RequestError: a text without `=`, an unknown or repeated name, a value of the wrong type, a missing value.
    """
    values: JsonObject = {}
    inner: list[tuple[str, Sequence[str], Any]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise RequestError(f"--set {text}: write name=value.")
        if _is_member(name, parameters):
            inner.append(_parse_member(name, value, parameters))
        elif name not in parameters:
            hint = _suggest_parameter(name, parameters, members(), "--set {way}=" + shlex.quote(value))
            raise RequestError(f"--set {text}: the pipeline has no parameter {name!r}. {hint}")
        elif name in values:
            raise RequestError(f"--set {name} is given twice.")
        else:
            values[name] = _convert_text(parameters[name], value)
    return _complete(parameters, _with_members(parameters, values, inner))


def check_arguments(parameters: Parameters, values: Mapping[str, object], members: Members = dict) -> JsonObject:
    """Returns typed values, as of a settings file, if they are arguments of the pipeline.

    Raises:
        RequestError: an unknown name, a value of the wrong type, a missing value.
    """
    for name, value in values.items():
        if name not in parameters:
            hint = _suggest_parameter(name, parameters, members(), "{way} = " + _format_value(value))
            raise RequestError(f"the pipeline has no parameter {name!r}. {hint}")
        if not parameters[name].fits(value):
            raise RequestError(f"{name} = {_format_value(value)}: {name} takes {parameters[name].type_text}.")
    return _complete(parameters, values)


def _convert_text(parameter: Parameter, text: str) -> Any:
    value = parameter.parse(text)
    if value is None:
        raise RequestError(f"--set {parameter.name}={text}: {parameter.name} takes {parameter.type_text}.")
    return value


def _is_member(name: str, parameters: Parameters) -> bool:
    """Whether an unknown name begins with a parameter's name and a dot."""
    return name not in parameters and "." in name and name.partition(".")[0] in parameters


def _parse_member(name: str, text: str, parameters: Parameters) -> tuple[str, Sequence[str], Any]:
    """Returns the parameter, the path in its object, and the value: parsed if it is JSON, else the text."""
    owner, *way = name.split(".")
    if parameters[owner].type != "STRUCT":
        raise RequestError(f"--set {name}={text}: {owner} takes {parameters[owner].type_text}, which has no members.")
    if not all(way):
        raise RequestError(f"--set {name}={text}: write {owner}.member=value.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    return owner, way, value


def _with_members(
    parameters: Parameters, values: JsonObject, members: Sequence[tuple[str, Sequence[str], Any]]
) -> JsonObject:
    """Returns the values with the members in their objects.

    Raises:
        RequestError: two texts set the same member.
    """
    texts: dict[str, JsonObject] = copy.deepcopy({owner: values.get(owner, {}) for owner, _, _ in members})
    merged: JsonObject = {
        **{owner: copy.deepcopy(parameters[owner].default or {}) for owner in texts},
        **copy.deepcopy(dict(values)),
    }
    for owner, way, value in members:
        _refuse_second(owner, way, texts[owner])
        _set_member(texts[owner], way, value)
        _set_member(merged[owner], way, value)
        if not parameters[owner].fits(merged[owner]):
            rule = f"numbers are finite, whole ones at most 2^53, and objects lie at most {DEEPEST} deep in each other"
            raise RequestError(f"--set {'.'.join([owner, *way])}: {owner} takes a JSON object, and in it {rule}.")
    return merged


def _refuse_second(owner: str, path: Sequence[str], table: JsonObject) -> None:
    for depth, key in enumerate(path):
        if key not in table:
            return
        table = table[key]
        if not isinstance(table, dict) or depth + 1 == len(path):
            known = ".".join([owner, *path[: depth + 1]])
            raise RequestError(
                f"--set {'.'.join([owner, *path])}: another --set sets {known} to {_format_value(table)}."
            )


def _set_member(table: JsonObject, path: Sequence[str], value: object) -> None:
    *objects, last = path
    for key in objects:
        if not isinstance(table.get(key), dict):
            table[key] = {}
        table = table[key]
    table[last] = value


def _complete(parameters: Parameters, values: Mapping[str, object]) -> JsonObject:
    """Returns the values, if none is missing, none would change on its way, and none contains a password."""
    missing = [
        name
        for name, parameter in parameters.items()
        if name not in values and not parameter.has_default and not parameter.is_optional
    ]
    if missing:
        raise RequestError(f"the pipeline needs a value for {', '.join(missing)}: --set {missing[0]}=...")
    for name, value in values.items():
        if placeholders.within(value):
            raise RequestError(f"{name} {placeholders.RULE}")
        if any(map(PASSWORD.search, placeholders.texts(value))):
            raise RequestError(
                f"{name} holds an address with a password, and parameters are shown in specs, logs and the console. "
                "Leave it out of the address."
            )
    return dict(values)


def _suggest_parameter(name: str, parameters: Parameters, members: Mapping[str, Collection[str]], command: str) -> str:
    """Returns a hint for an unknown name; `command` shows how to set a `{way}`."""
    ways = {member: f"{owner}.{member}" for owner, names in members.items() if owner in parameters for member in names}
    choices = {**ways, **{way: way for way in ways.values()}, **{known: known for known in parameters}}
    if name in ways:
        return f"It is a member of {ways[name].partition('.')[0]}: {command.format(way=ways[name])}"
    near = nearest(name, choices)
    return f"Did you mean {choices[near]}?" if near else f"It has {', '.join(sorted(parameters))}."


def _format_value(value: object) -> str:
    return json.dumps(value, default=str)
