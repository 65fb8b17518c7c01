"""Environment variables as settings: PIPELINES_REGION, PIPELINES_STEPS__TRAIN__MACHINE.

Two underscores go one table down. Names are read in lower case, except a step's own variables
(PIPELINES_STEPS__TRAIN__ENV__NCCL_DEBUG); `-` is written `_`. An empty variable counts as not set.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from vgp.base.errors import RequestError
from vgp.base.text.nearest import nearest
from vgp.settings.document import Keys
from vgp.settings.layers import Layer, put

PREFIX = "PIPELINES_"
#: Chooses the environment; no setting.
ENVIRONMENT = "PIPELINES_ENV"


def layer(environ: Mapping[str, str], fields: Iterable[str], declared: Mapping[str, Any]) -> Layer:
    """The variables that are settings. `declared` are the file's values: names with `-` are found there.

    Raises:
        RequestError: a name close to that of a setting, but not it; a table that is no JSON object.
    """
    values: dict[str, Any] = {}
    names: dict[Keys, str] = {}
    for name in sorted(environ):  # the longer name is the stronger one, and comes later
        keys = _keys(name, set(fields), declared)
        if keys and environ[name]:
            put(values, keys, _value(name, keys, environ[name]))
            names[keys] = name
    return Layer("variable", values, names=names)


def _keys(name: str, fields: set[str], declared: Mapping[str, Any]) -> Keys | None:
    """The keys that a variable names; None if it is not ours."""
    if not name.startswith(PREFIX) or name == ENVIRONMENT:
        return None
    first, *rest = name.removeprefix(PREFIX).split("__")
    if first.lower() not in fields:
        _refuse_near(name, first.lower(), fields)
        return None
    keys: Keys = (first.lower(),)
    for part in rest:
        keys = (*keys, part if len(keys) > 2 and keys[0] == "steps" and keys[2] == "env" else part.lower())
    return _as_declared(keys, declared)


def _refuse_near(name: str, key: str, fields: set[str]) -> None:
    """Others use the prefix too (Bitbucket sets PIPELINES_JWT_TOKEN): only what looks like a slip is refused."""
    near = ENVIRONMENT if key == "environment" else nearest(key, fields, cutoff=0.75)
    if near:
        meant = near if near == ENVIRONMENT else PREFIX + near.upper()
        raise RequestError(f"{name}: there is no such setting. Did you mean {meant}?")


def _as_declared(keys: Keys, declared: Mapping[str, Any]) -> Keys:
    """A variable's name cannot hold `-`: a step or schedule of the file is found with `_` for it."""
    table = declared.get(keys[0])
    if len(keys) < 2 or keys[0] not in ("steps", "schedules") or not isinstance(table, Mapping) or keys[1] in table:
        return keys
    same = [name for name in table if name.replace("-", "_") == keys[1]]
    return (keys[0], same[0], *keys[2:]) if same else keys


def _value(name: str, keys: Keys, text: str) -> Any:
    """Text as the setting takes it; numbers and booleans are read by the model."""
    if len(keys) > 3 and keys[0] == "schedules" and keys[2] == "parameters":
        return _json_or_text(text)
    if keys[0] == "steps" and keys[2:] in (("command",), ("capacity",)):
        return _json_or_text(text)
    if not _is_table(keys):
        return text
    value = _json_or_text(text)
    if not isinstance(value, dict):
        raise RequestError(f'{name}: {".".join(keys)} is a table: give it as a JSON object, {{"key": "value"}}.')
    return value


def _is_table(keys: Keys) -> bool:
    if keys[0] in ("labels", "endpoints", "notify", "mlflow", "steps", "schedules"):
        return len(keys) == 1 or (keys[0] in ("steps", "schedules") and len(keys) == 2) or keys[2:] in _TABLES
    return False


_TABLES = (
    ("env",), ("reduction_server",), ("parameter_server",), ("bigquery",), ("dataflow",), ("parameters",),
)  # fmt: skip


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
