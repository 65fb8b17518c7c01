"""What is in a place for templates: packages, and the versions of one with their tags; as tables."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from vgp.base.text.printable import abridged, one_line
from vgp.base.text.table import facts, table
from vgp.settings import Settings, schedule_settings
from vgp.settings.schedule_settings import LATEST, Reference
from vgp.vertex.templates.template import Template, absent, open_store, resolve
from vgp.vertex.templates.template_store import as_time


def packages(settings: Settings, *, place: str | None = None) -> list[dict[str, Any]]:
    """All templates, by name.

    Raises:
        RequestError: there is no place for templates.
        WorkFailed: Google refused or could not be reached.
    """
    store = open_store(settings, place)
    with store.explaining("list the templates"):
        listed = sorted(store.packages(), key=lambda package: package.name)
    return [{"name": package.name, "updated": as_time(package.updated)} for package in listed]


def versions(settings: Settings, name: str, *, place: str | None = None) -> list[dict[str, Any]]:
    """All versions of the template `name`, newest first: version, tags, created, size in bytes, uri.

    Raises:
        RequestError: there is no such template.
        WorkFailed: Google refused or could not be reached.
    """
    schedule_settings.package(name)
    store = open_store(settings, place)
    with store.explaining(f"list the versions of {name}"):
        listed, tags = store.versions(name), store.tags(name)
        if not listed:
            raise absent(store, Reference(name, LATEST, None))
    tagged: dict[str, list[str]] = {}
    for tag, digest in sorted(tags.items()):
        tagged.setdefault(digest, []).append(tag)
    listed.sort(key=lambda version: (as_time(version.created) or "", version.digest), reverse=True)
    return [
        {
            "name": name,
            "version": version.digest,
            "tags": tagged.get(version.digest, []),
            "created": as_time(version.created),
            "size": version.size,
            "uri": store.location(name, version.digest),
        }
        for version in listed
    ]


def detail(settings: Settings, reference: str, *, place: str | None = None) -> dict[str, Any]:
    """One version with its tags and the parameters that a run of it takes.

    Raises:
        RequestError: the reference is none, or there is no such version.
        WorkFailed: the content is not what the digest says, or Google could not be reached.
    """
    template = resolve(settings, reference, place=place)
    return {
        "name": template.name,
        "version": template.digest,
        "uri": template.location,
        "tags": tags_of(settings, template),
        "size": len(template.content),
        "description": template.spec.description,
        "parameters": [parameter.as_json() for _, parameter in sorted(template.spec.parameters.items())],
    }


def tags_of(settings: Settings, template: Template) -> list[str]:
    """The tags that point to this version.

    Raises:
        WorkFailed: Google refused or could not be reached.
    """
    store = open_store(settings, template.place)
    with store.explaining(f"list the tags of {template.name}"):
        return sorted(tag for tag, digest in store.tags(template.name).items() if digest == template.digest)


#: Types of parameters, as the form of the console asks for them.
_TYPES = {
    "STRING": "text", "NUMBER_DOUBLE": "number", "NUMBER_INTEGER": "whole number", "BOOLEAN": "true or false",
    "LIST": "JSON list", "STRUCT": "JSON object",
}  # fmt: skip


def packages_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The templates of a place."""
    return table(("template", "updated (UTC)"), ((one_line(row["name"]), _day(row["updated"])) for row in rows))


def versions_table(rows: Sequence[Mapping[str, Any]]) -> Table:
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
