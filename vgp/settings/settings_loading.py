"""Loads file, environment, variables and flags into `Settings`, or raises one error with all problems.

Also lists every effective value with its source, for `vgp config`.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.toml_text import settings_file
from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import is_secret
from vgp.settings import value_rules
from vgp.settings.layers import ENVIRONMENT, Layer, build_variable_layer, is_whole, merge, put
from vgp.settings.messages import explain, format_line, refuse_conversions, refuse_hosts, refuse_texts
from vgp.settings.repository import MISSING, Repository
from vgp.settings.schedule_settings import NAME
from vgp.settings.settings_model import Settings
from vgp.settings.settings_text import Document, Keys, read

#: Keys that are allowed only at the top of the file.
_TOP_KEYS = ("environment", "workflows")
_FIELDS = frozenset(Settings.model_fields) - set(_TOP_KEYS)


def load(
    path: Path | None = None, *, environment: str | None = None, overrides: Mapping[str, object] | None = None
) -> Settings:
    """Loads the effective settings.

    Highest priority first: `overrides`, variables PIPELINES_..., the environment's table, the top of the file,
    defaults. All environments of the file are checked.

    Args:
        path: The file; by default the nearest pipelines.toml, from this folder upward, or none.
        environment: The environment; by default PIPELINES_ENV, else `environment` in the file, else the only one.
        overrides: Values of flags by key, such as `service_account` or `labels.team`; None: not set.

    Raises:
        RequestError: the file cannot be read, is not TOML, or has an invalid value; the message has its line and the
            fix.
    """
    document = _read_document(path)
    home = _locate_repository(document) if document else None
    tables = _list_environments(document)
    choice = _choose_environment(environment, document, tables)
    files = _build_file_layers(document, choice)
    declared = merge(files).values
    above = [build_variable_layer(os.environ, _FIELDS, declared), _build_flag_layer(overrides or {})]
    settings, errors = _validate([*files, *above], home)
    roots: dict[str, str] = {}
    for other in tables:
        if not choice or other != choice.values["environment"]:
            layers = _build_file_layers(document, _choose_environment(other, document, tables))
            other_settings, other_errors = _validate(layers, home)
            errors += other_errors
            roots[other] = _find_registry(other_settings, settings) if other_settings and settings else ""
    if settings is None or errors:
        raise RequestError("\n".join(dict.fromkeys(errors)))
    settings._merged.environments = tuple(tables)
    settings._registries = roots
    settings._merged.path = document.path if document else None
    settings._repository = home
    return settings


def find_repository(path: Path | None = None) -> Repository:
    """Returns the repository of the settings file `path`, by default the nearest one, and reads no other setting.

    Raises:
        RequestError: the file is missing, is not TOML, or names no folder of workflows.
    """
    document = _read_document(path)
    if document is None:
        raise RequestError(MISSING)
    return _locate_repository(document)


def _read_document(path: Path | None) -> Document | None:
    path = path or settings_file()
    return read(path) if path else None


def _locate_repository(document: Document) -> Repository:
    folder = document.values.get("workflows", Settings.model_fields["workflows"].default)
    try:
        folder = value_rules.check_workflows(folder)
    except ValueError as error:
        raise RequestError(_format_error(document, ("workflows",), str(error))) from None
    file = Path(os.path.abspath(document.path))
    return Repository(file, file.parent / folder)


def _list_environments(document: Document | None) -> list[str]:
    """Returns the names of the declared environments, in the order of the file."""
    if document is None:
        return []
    tables = document.values.get("environments", {})
    if not isinstance(tables, dict):
        raise RequestError(_format_error(document, ("environments",), "takes tables: write [environments.dev]."))
    for name, table in tables.items():
        if not NAME.fullmatch(name):
            rule = "use at most 40 lower-case letters, digits and -, a letter first."
            raise RequestError(
                _format_error(document, ("environments",), f"an environment has an invalid name: {rule}")
            )
        if not isinstance(table, dict):
            text = f"takes a table: write [environments.{name}]."
            raise RequestError(_format_error(document, ("environments", name), text))
        for key in _TOP_KEYS:
            if key in table:
                text = "belongs to the top of the file."
                raise RequestError(_format_error(document, ("environments", name, key), text))
    return list(tables)


def _choose_environment(flag: str | None, document: Document | None, tables: Sequence[str]) -> Layer | None:
    """Returns the name of the chosen environment with its source, or None if none is chosen."""
    key: Keys = ("environment",)
    variable = os.environ.get(ENVIRONMENT)
    if flag:
        layer = Layer("flag", {"environment": flag}, names={key: "--env"})
    elif variable:
        layer = Layer("variable", {"environment": variable}, names={key: ENVIRONMENT})
    elif document and "environment" in document.values:
        layer = Layer("file", {"environment": document.values["environment"]}, document)
    elif document and len(tables) == 1:
        return Layer("default", {"environment": tables[0]}, names={key: "the only one"})
    else:
        return None
    name = layer.values["environment"]
    if name in tables:
        return layer
    if not isinstance(name, str):
        message = "takes a name in quotes; write the environment's settings into [environments.NAME]."
    elif is_secret(name):
        message = "looks like a credential."
    else:
        choices = (
            did_you_mean(name, tables) if tables else "The file declares no environment: write [environments.NAME]."
        )
        message = f"there is no environment '{name}'. {choices}"
    raise RequestError(format_line(layer.source(key), key, message))


def _build_file_layers(document: Document | None, choice: Layer | None) -> list[Layer]:
    if document is None:
        return []
    top = {key: value for key, value in document.values.items() if key not in ("environment", "environments")}
    if choice is None:
        return [Layer("file", top, document)]
    name = str(choice.values["environment"])
    table = document.values["environments"][name]
    return [Layer("file", top, document), Layer("file", table, document, ("environments", name)), choice]


def _build_flag_layer(overrides: Mapping[str, object]) -> Layer:
    values: JsonObject = {}
    names: dict[Keys, str] = {}
    for key, value in overrides.items():
        if value is not None:
            keys = tuple(key.split("."))
            put(values, keys, value)
            names[keys] = f"--{key.replace('_', '-')}"
    return Layer("flag", values, names=names)


def _validate(layers: Sequence[Layer], home: Repository | None) -> tuple[Settings | None, list[str]]:
    """Returns the settings of the merged layers, and the errors in them."""
    merged = merge(layers)
    errors = refuse_texts(merged)
    if errors:
        return None, errors
    try:
        settings = Settings.model_validate(merged.values, context=home)
    except ValidationError as error:
        return None, explain(error, merged)
    settings._merged = merged
    return settings, [*refuse_hosts(merged), *refuse_conversions(merged, settings.model_dump())]


def _find_registry(other: Settings, chosen: Settings) -> str:
    """Returns the registry root of another environment; a bucket from a variable applies to every environment."""
    by_variable = other.bucket is None and chosen.source("bucket").kind == "variable"
    return (other.model_copy(update={"bucket": chosen.bucket}) if by_variable else other).registry_root


def _format_error(document: Document, keys: Keys, message: str) -> str:
    return format_line(Layer("file", {}, document).source(keys), keys, message)


def build_overview(settings: Settings) -> JsonObject:
    """Returns the file, its environments, the chosen environment, and a row for each value."""
    return {
        "file": str(settings.file) if settings.file else None,
        "environment": settings.environment,
        "environments": list(settings.environments),
        "registry": settings.registry_root or None,
        "registry_shared_with": list(settings.registry_sharers),
        "values": list(_list_values(settings)),
    }


def list_rows(settings: Settings, key: str) -> list[JsonObject]:
    """Returns the row of `key`, or the rows of its table.

    Raises:
        RequestError: the setting does not exist, or has no value.
    """
    rows = list(_list_values(settings))
    below_key = [row for row in rows if row["key"] == key or row["key"].startswith(f"{key}.")]
    if not below_key and key.split(".")[0] not in Settings.model_fields:
        raise RequestError(f"there is no setting '{key}'. {did_you_mean(key, [row['key'] for row in rows])}")
    if not below_key or below_key[0]["value"] is None:
        variable = f"PIPELINES_{key.upper().replace('-', '_').replace('.', '__')}"
        raise RequestError(f"{key} is not set. Write it into pipelines.toml, or set {variable}.")
    return below_key


def format_value(value: object) -> str:
    """Returns a value as text: strings without quotes, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _list_values(settings: Settings) -> Iterator[JsonObject]:
    for key, value in _flatten(settings.model_dump()):
        source = settings.source(key)
        row = {"key": key, "value": value, "source": source.kind, "place": str(source)}
        if source.document:
            row |= {"name": source.name, "file": str(source.document.path), "line": source.line}
        yield row


def _flatten(values: Mapping[str, object], at: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the keys and values of the settings; at the top level also settings without a value."""
    for name, value in values.items():
        key = f"{at}{name}"
        if isinstance(value, Mapping) and value and not is_whole(tuple(key.split("."))):
            yield from _flatten(value, f"{key}.")
        elif isinstance(value, datetime):
            yield key, value.isoformat()
        elif not at or not (value in (None, {}) or (value == () and at.startswith("steps."))):
            yield key, None if value == {} else value
