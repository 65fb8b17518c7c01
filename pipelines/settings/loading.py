"""Reads, merges and checks: file, environment, variables and flags become `Settings`, or one message."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipelines.errors import RequestError, nearest
from pipelines.settings import variables
from pipelines.settings.document import Document, Keys, read
from pipelines.settings.layers import Layer, Merged, merge
from pipelines.settings.messages import explain, refuse_secrets
from pipelines.settings.model import Settings
from pipelines.settings.schedule import NAME

FILE_NAME = "pipelines.toml"
_FIELDS = frozenset(Settings.model_fields) - {"environment"}


def load(
    path: Path | None = None, *, environment: str | None = None, overrides: Mapping[str, Any] | None = None
) -> Settings:
    """The effective settings.

    Strongest first: `overrides`, variables PIPELINES_..., the environment's table, the top of the file, defaults.
    The file is checked as a whole, every environment of it.

    Args:
        path: The file; by default pipelines.toml in this folder or the repository, or none.
        environment: Its name; else PIPELINES_ENV, else `environment` in the file, else the only one.
        overrides: Values of flags by key, `service_account` or `labels.team`; None counts as not given.

    Raises:
        RequestError: the file cannot be read, is no TOML, or a value is not allowed: where it is, and the fix.
    """
    document = _find(path)
    tables = _environments(document)
    chosen = _choose(environment, document, tables)
    files = _file_layers(document, chosen)
    declared = merge(files).values
    above = [variables.layer(os.environ, _FIELDS, declared), _flags(overrides or {})]
    settings, wrong = _checked([*files, *above], chosen)
    for other in tables:
        if other != chosen:
            wrong += _checked(_file_layers(document, other), other)[1]
    if settings is None or wrong:
        raise RequestError("\n".join(dict.fromkeys(wrong)))
    settings._merged.environments = tuple(tables)
    return settings


def _find(path: Path | None) -> Document | None:
    if path is not None:
        return read(path)
    folders = [Path.cwd(), Path(__file__).resolve().parents[2]]
    return next((read(folder / FILE_NAME) for folder in folders if (folder / FILE_NAME).is_file()), None)


def _environments(document: Document | None) -> list[str]:
    """Names of the declared environments, in the order of the file."""
    tables = document.values.get("environments", {}) if document else {}
    if document and not isinstance(tables, dict):
        raise RequestError(_at(document, ("environments",), "takes tables: write [environments.dev]."))
    for name, table in tables.items():
        if document and not isinstance(table, dict):
            raise RequestError(_at(document, ("environments", name), f"takes a table: write [environments.{name}]."))
        if document and not NAME.fullmatch(name):
            rule = "at most 40 lower-case letters, digits and -, a letter first."
            raise RequestError(_at(document, ("environments", name), f"'{name}' is no name: {rule}"))
    return list(tables)


def _choose(flag: str | None, document: Document | None, tables: Sequence[str]) -> str | None:
    in_file = document.values.get("environment") if document else None
    given = [("--env", flag), (variables.ENVIRONMENT, os.environ.get(variables.ENVIRONMENT)), ("", in_file)]
    origin, name = next(((origin, name) for origin, name in given if name), ("", None))
    if name is None:
        return tables[0] if len(tables) == 1 else None
    if name in tables:
        return str(name)
    choices = nearest(str(name), tables) if tables else "The settings file declares none: write [environments.NAME]."
    message = f"there is no environment '{name}'. {choices}"
    raise RequestError(f"{origin}: {message}" if origin or not document else _at(document, ("environment",), message))


def _file_layers(document: Document | None, environment: str | None) -> list[Layer]:
    if document is None:
        return []
    top = {key: value for key, value in document.values.items() if key not in ("environment", "environments")}
    layers = [Layer("file", top, document)]
    if environment is not None:
        table = ("environments", environment)
        layers.append(Layer("file", document.values["environments"][environment], document, table))
    return layers


def _flags(overrides: Mapping[str, Any]) -> Layer:
    values: dict[str, Any] = {}
    names: dict[Keys, str] = {}
    for key, value in overrides.items():
        if value is not None:
            *tables, last = keys = tuple(key.split("."))
            table = values
            for each in tables:
                table = table.setdefault(each, {})
            table[last] = value
            names[keys] = f"--{key.replace('_', '-')}"
    return Layer("flag", values, names=names)


def _checked(layers: Iterable[Layer], environment: str | None) -> tuple[Settings | None, list[str]]:
    """The settings of the layers, or what is wrong with them."""
    merged: Merged = merge(list(layers))
    wrong = refuse_secrets(merged)
    if wrong:
        return None, wrong
    try:
        settings = Settings.model_validate({**merged.values, "environment": environment})
    except ValidationError as error:
        return None, explain(error, merged)
    settings._merged = merged
    return settings, []


def _at(document: Document, keys: Keys, message: str) -> str:
    return f"{document.path}:{document.line(keys)}: {'.'.join(keys)}: {message}"
