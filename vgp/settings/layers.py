"""Merges settings from several sources, such as files and environment variables, and records the source of each value.

Tables merge key by key; texts, numbers and lists are replaced. Two values are replaced as a whole: the machine of a
step, and a parameter of a schedule that is itself a table.

Environment variables are, for example, PIPELINES_REGION and PIPELINES_STEPS__TRAIN__MACHINE; two underscores separate a
table from its key. Names are read in lower case, except a step's own variables
(PIPELINES_STEPS__TRAIN__ENV__NCCL_DEBUG); `-` is written `_`. An empty variable counts as not set.
"""

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.nearest import nearest
from vgp.machines.placement.request_parts import NEEDS
from vgp.settings.settings_text import Document, Keys

#: Settings of a ladder, which also request machines.
_LADDER = ("capacity", "deadline")


@dataclass(frozen=True)
class Source:
    """The source of a value."""

    kind: Literal["default", "file", "variable", "flag"] = "default"
    #: Name of the key, variable or option, such as environments.prod.region; "" for a default.
    name: str = ""
    document: Document | None = None
    #: Keys of the value in the file.
    keys: Keys = ()

    @property
    def line(self) -> int | None:
        return self.document.line(self.keys) if self.document else None

    def __str__(self) -> str:
        """Returns a text like pipelines.toml:12, PIPELINES_REGION, --region or default."""
        return f"{self.document.path}:{self.line}" if self.document else self.name or self.kind


@dataclass(frozen=True)
class Layer:
    """The settings of one source, as a tree of tables."""

    kind: Literal["default", "file", "variable", "flag"]
    values: Mapping[str, object]
    document: Document | None = None
    #: Keys of the table in the file: () or ("environments", "prod").
    table: Keys = ()
    #: Keys -> the variable or flag of their value.
    names: Mapping[Keys, str] = field(default_factory=dict)

    def source(self, keys: Keys) -> Source:
        if self.document is not None:
            full = (*self.table, *keys)
            return Source("file", ".".join(full), self.document, full)
        near = [name for at, name in self.names.items() if keys[: len(at)] == at or at[: len(keys)] == keys]
        return Source(self.kind, self.names.get(keys) or near[-1])


@dataclass
class Merged:
    """The tree of all layers, and the layer of every value."""

    values: JsonObject = field(default_factory=dict)
    origins: dict[Keys, Layer] = field(default_factory=dict, compare=False)
    #: Names of the environments that the file declares, and the file.
    environments: tuple[str, ...] = ()
    path: Path | None = None

    def source(self, keys: Keys) -> Source:
        """Returns the source of the value, or "default"."""
        return self.origins[keys].source(keys) if keys in self.origins else Source()

    def nearest(self, keys: Keys) -> Source:
        """Returns the source of the value, or of its table if the value is missing."""
        layers = (self.origins[keys[:size]] for size in range(len(keys), 0, -1) if keys[:size] in self.origins)
        layer = next(layers, None)
        return layer.source(keys) if layer else Source(name=".".join(keys))


def merge(layers: Sequence[Layer]) -> Merged:
    """Merges the layers, of which the first has the lowest priority."""
    merged = Merged()
    for layer in layers:
        _merge_layer(merged, merged.values, layer.values, (), layer)
    return merged


def put(values: JsonObject, keys: Keys, value: object) -> None:
    """Sets a value in a tree of tables, and replaces values on its path that are not tables."""
    table = values
    for key in keys[:-1]:
        inner = table.get(key)
        table[key] = table = inner if isinstance(inner, dict) else {}
    table[keys[-1]] = value


def _merge_layer(merged: Merged, base: JsonObject, stronger: Mapping[str, object], at: Keys, layer: Layer) -> None:
    for key in _list_replaced(at, stronger):
        base.pop(key, None)
        merged.origins.pop((*at, key), None)
    for key, value in stronger.items():
        here = (*at, key)
        if isinstance(value, Mapping) and not is_whole(here):
            if not isinstance(base.get(key), dict):
                base[key] = {}
                _forget(merged, here)
            merged.origins.setdefault(here, layer)
            _merge_layer(merged, base[key], value, here, layer)
        else:
            base[key] = copy.deepcopy(value)
            _forget(merged, here)
            merged.origins[here] = layer


def _forget(merged: Merged, here: Keys) -> None:
    for keys in [keys for keys in merged.origins if keys[: len(here)] == here]:
        del merged.origins[keys]


def is_whole(keys: Keys) -> bool:
    """Whether the value at these keys is replaced as a whole, as a table among the parameters of a schedule."""
    return len(keys) > 3 and keys[0] == "schedules" and keys[2] == "parameters"


def _list_replaced(at: Keys, stronger: Mapping[str, object]) -> tuple[str, ...]:
    """Returns the settings that the values of a stronger layer remove from weaker layers.

    An image removes the light image, which was built together with another image.
    """
    if not at:
        return ("light_image",) if "image" in stronger else ()
    if len(at) != 2 or at[0] != "steps":
        return ()
    replaced: tuple[str, ...] = ()
    if "machine" in stronger:
        replaced = ("accelerator", "count", *NEEDS, *_LADDER)
    elif any(key in stronger for key in ("accelerator", *NEEDS)):
        replaced = ("machine", *_LADDER)
    if "capacity" in stronger:
        replaced = tuple(key for key in replaced if key not in _LADDER)
    return (*replaced, "max_wait") if "strategy" in stronger else replaced


PREFIX = "PIPELINES_"
#: Chooses the environment; not a setting.
ENVIRONMENT = "PIPELINES_ENV"


def build_variable_layer(environ: Mapping[str, str], fields: Iterable[str], declared: Mapping[str, object]) -> Layer:
    """Returns the layer of the variables that are settings; `declared`, the file's values, resolves names with `-`.

    Raises:
        RequestError: a variable's name is close to a setting's, or the value of a table is not a JSON object.
    """
    values: JsonObject = {}
    names: dict[Keys, str] = {}
    for name in sorted(environ):  # the longer name has priority, so it comes later
        keys = _parse_variable_name(name, set(fields), declared)
        if keys and environ[name]:
            put(values, keys, _parse_variable(name, keys, environ[name]))
            names[keys] = name
    return Layer("variable", values, names=names)


def _parse_variable_name(name: str, fields: set[str], declared: Mapping[str, object]) -> Keys | None:
    """Returns the keys that a variable names, or None for a variable of another program."""
    if not name.startswith(PREFIX) or name == ENVIRONMENT:
        return None
    first, *rest = name.removeprefix(PREFIX).split("__")
    if first.lower() not in fields:
        _refuse_near(name, first.lower(), fields)
        return None
    keys: Keys = (first.lower(),)
    for part in rest:
        keys = (*keys, part if len(keys) > 2 and keys[0] == "steps" and keys[2] == "env" else part.lower())
    return _match_declared(keys, declared)


def _refuse_near(name: str, key: str, fields: set[str]) -> None:
    """Raises RequestError for a probable typo. Other programs use the prefix too: Bitbucket sets
    PIPELINES_JWT_TOKEN."""
    near = ENVIRONMENT if key == "environment" else nearest(key, fields, cutoff=0.75)
    if near:
        meant = near if near == ENVIRONMENT else PREFIX + near.upper()
        raise RequestError(f"{name}: there is no such setting. Did you mean {meant}?")


def _match_declared(keys: Keys, declared: Mapping[str, object]) -> Keys:
    """Returns the keys as declared in the file, where a step or schedule may have `-` for the `_` of the variable."""
    table = declared.get(keys[0])
    if len(keys) < 2 or keys[0] not in ("steps", "schedules") or not isinstance(table, Mapping) or keys[1] in table:
        return keys
    matches = [name for name in table if name.replace("-", "_") == keys[1]]
    return (keys[0], matches[0], *keys[2:]) if matches else keys


def _parse_variable(name: str, keys: Keys, text: str) -> Any:
    """Returns the text as the setting's value; the model parses numbers and booleans."""
    if len(keys) > 3 and keys[0] == "schedules" and keys[2] == "parameters":
        return _parse_json(text)
    if keys[0] == "steps" and keys[2:] in (("command",), ("capacity",)):
        return _parse_json(text)
    if not _is_table(keys):
        return text
    value = _parse_json(text)
    if not isinstance(value, dict):
        raise RequestError(f'{name}: {".".join(keys)} is a table; write a JSON object, {{"key": "value"}}.')
    return value


def _is_table(keys: Keys) -> bool:
    if keys[0] in ("labels", "endpoints", "notify", "mlflow", "steps", "schedules"):
        return len(keys) == 1 or (keys[0] in ("steps", "schedules") and len(keys) == 2) or keys[2:] in _TABLES
    return False


_TABLES = (
    ("env",), ("reduction_server",), ("parameter_server",), ("bigquery",), ("dataflow",), ("parameters",),
)  # fmt: skip


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
