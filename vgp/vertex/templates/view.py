"""`pipelines templates`: tables of what is in a place for templates."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from vgp.text.printable import one_line

#: Types of parameters, as the form of the console asks for them.
_TYPES = {
    "STRING": "text", "NUMBER_DOUBLE": "number", "NUMBER_INTEGER": "whole number", "BOOLEAN": "true or false",
    "LIST": "JSON list", "STRUCT": "JSON object",
}  # fmt: skip


def packages(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = _table("template", "updated (UTC)")
    for row in rows:
        table.add_row(*map(_plain, (row["name"], _day(row["updated"]))))
    return table


def versions(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The digest is cut to what a reference needs; a commit that is there in short is not shown in full."""
    table = _table("version", "created (UTC)", "bytes", "tags")
    for row in rows:
        size = "" if row["size"] is None else f"{row['size']:,}"
        cells = (row["version"][:19], _day(row["created"]), size, ", ".join(_short(row["tags"])))
        table.add_row(*map(_plain, cells))
    return table


def card(version: Mapping[str, Any]) -> Table:
    table = _table("", "")
    table.show_header = False
    for label in ("name", "version", "uri", "description"):
        table.add_row(f"[bold]{label}[/]", _plain(version[label]))
    table.add_row("[bold]tags[/]", _plain(", ".join(version["tags"])))
    table.add_row("[bold]bytes[/]", f"{version['size']:,}")
    for parameter in version["parameters"]:
        kind, default = _TYPES.get(parameter["type"], parameter["type"]), _default(parameter["default"])
        told = _plain(f"{kind}{default}: {parameter['description']}")
        table.add_row(Text.assemble("  ", _plain(parameter["name"])), told)
    return table


def _default(value: Any) -> str:
    """` = 1024`: a spec keeps every number as a double."""
    if value is None:
        return ""
    return f" = {value:.15g}" if isinstance(value, float) else f" = {json.dumps(value, ensure_ascii=False)}"


def _plain(text: str) -> Text:
    """What somebody uploaded, as it is written: no markup, no control characters."""
    return Text(one_line(text))


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _day(time: str | None) -> str:
    return (time or "")[:16].replace("T", " ")


def _short(tags: Sequence[str]) -> list[str]:
    return [tag for tag in tags if not (len(tag) == 40 and tag[:12] in tags)]
