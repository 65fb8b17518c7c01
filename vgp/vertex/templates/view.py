"""`vgp templates`: tables of what is in a place for templates."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from vgp.base.text.printable import abridged, one_line
from vgp.base.text.table import facts, table

#: Types of parameters, as the form of the console asks for them.
_TYPES = {
    "STRING": "text", "NUMBER_DOUBLE": "number", "NUMBER_INTEGER": "whole number", "BOOLEAN": "true or false",
    "LIST": "JSON list", "STRUCT": "JSON object",
}  # fmt: skip


def packages(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The templates of a place."""
    return table(("template", "updated (UTC)"), ((one_line(row["name"]), _day(row["updated"])) for row in rows))


def versions(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The digest is cut to what a reference needs; a commit that is there in short is not shown in full."""
    cells = (
        (
            one_line(row["version"][:19]),
            _day(row["created"]),
            "" if row["size"] is None else f"{row['size']:,}",
            one_line(", ".join(_short(row["tags"]))),
        )
        for row in rows
    )
    return table(("version", "created (UTC)", "bytes", "tags"), cells)


def card(version: Mapping[str, Any]) -> Table:
    """One version with its parameters."""
    rows: list[tuple[str | Text, str]] = [
        (Text(label, "bold"), one_line(version[label])) for label in ("name", "version", "uri", "description")
    ]
    rows += [
        (Text("tags", "bold"), one_line(", ".join(version["tags"]))),
        (Text("bytes", "bold"), f"{version['size']:,}"),
    ]
    for parameter in version["parameters"]:
        kind, default = _TYPES.get(parameter["type"], parameter["type"]), _default(parameter["default"])
        rows.append((f"  {one_line(parameter['name'])}", one_line(f"{kind}{default}: {parameter['description']}")))
    return facts(rows)


def _default(value: Any) -> str:
    """` = 1024`: a spec keeps every number as a double."""
    if value is None:
        return ""
    return f" = {value:.15g}" if isinstance(value, float) else f" = {json.dumps(abridged(value), ensure_ascii=False)}"


def _day(time: str | None) -> str:
    return (time or "")[:16].replace("T", " ")


def _short(tags: Sequence[str]) -> list[str]:
    return [tag for tag in tags if not (len(tag) == 40 and tag[:12] in tags)]
