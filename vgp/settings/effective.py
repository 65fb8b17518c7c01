"""`vgp config`: every effective value, and where it came from."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from vgp.base.errors import RequestError
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import printable
from vgp.base.text.table import table
from vgp.settings.layers import is_whole
from vgp.settings.settings_model import Settings


def overview(settings: Settings) -> dict[str, Any]:
    """The file, its environments, the chosen one, and a row for each value."""
    return {
        "file": str(settings.file) if settings.file else None,
        "environment": settings.environment,
        "environments": list(settings.environments),
        "registry": settings.registry_root or None,
        "registry_shared_with": list(settings.registry_sharers),
        "values": list(_rows(settings)),
    }


def below(settings: Settings, key: str) -> list[dict[str, Any]]:
    """The row of `key`, or the rows of its table.

    Raises:
        RequestError: there is no such setting, or it has no value.
    """
    rows = list(_rows(settings))
    below_key = [row for row in rows if row["key"] == key or row["key"].startswith(f"{key}.")]
    if not below_key and key.split(".")[0] not in Settings.model_fields:
        raise RequestError(f"there is no setting '{key}'. {did_you_mean(key, [row['key'] for row in rows])}")
    if not below_key or below_key[0]["value"] is None:
        variable = f"PIPELINES_{key.upper().replace('-', '_').replace('.', '__')}"
        raise RequestError(f"{key} is not set. Write it into pipelines.toml, or set {variable}.")
    return below_key


def shown(value: Any) -> str:
    """A value as it is written for a person or a script: text bare, the rest as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def settings_table(rows: list[dict[str, Any]]) -> Table:
    return table(("setting", "value", "from"), map(_cells, rows))


def _cells(row: dict[str, Any]) -> list[Text]:
    value = "-" if row["value"] is None else shown(row["value"])
    style = "dim" if row["source"] == "default" else ""
    return [Text(printable(cell), style) for cell in (row["key"], value, row["place"])]


def _rows(settings: Settings) -> Iterator[dict[str, Any]]:
    for key, value in _flat(settings.model_dump()):
        source = settings.source(key)
        row = {"key": key, "value": value, "source": source.kind, "place": str(source)}
        if source.document:
            row |= {"name": source.name, "file": str(source.document.path), "line": source.line}
        yield row


def _flat(values: Mapping[str, Any], at: str = "") -> Iterator[tuple[str, Any]]:
    """Key and value of everything that has one; at the top also of what has none."""
    for name, value in values.items():
        key = f"{at}{name}"
        if isinstance(value, Mapping) and value and not is_whole(tuple(key.split("."))):
            yield from _flat(value, f"{key}.")
        elif isinstance(value, datetime):
            yield key, value.isoformat()
        elif not at or not (value in (None, {}) or (value == () and at.startswith("steps."))):
            yield key, None if value == {} else value
