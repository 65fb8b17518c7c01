"""What is in a place for templates: packages, and the versions of one with their tags."""

from typing import Any

from vgp.settings import Settings
from vgp.spec import template_reference
from vgp.spec.template_reference import LATEST, Reference
from vgp.vertex.templates.store import store
from vgp.vertex.templates.template import Template, absent


def packages(settings: Settings, *, place: str | None = None) -> list[dict[str, Any]]:
    """All templates, by name.

    Raises:
        RequestError: there is no place for templates.
        WorkFailed: Google refused or could not be reached.
    """
    there = store(settings, place)
    with there.explaining("list the templates"):
        found = there.packages()
    return [{"name": each.name, "updated": as_time(each.updated)} for each in sorted(found, key=lambda each: each.name)]


def versions(settings: Settings, name: str, *, place: str | None = None) -> list[dict[str, Any]]:
    """All versions of the template `name`, newest first: version, tags, created, size in bytes, uri.

    Raises:
        RequestError: there is no such template.
        WorkFailed: Google refused or could not be reached.
    """
    template_reference.package(name)
    there = store(settings, place)
    with there.explaining(f"list the versions of {name}"):
        found, tags = there.versions(name), there.tags(name)
        if not found:
            raise absent(there, Reference(name, LATEST, None))
    tagged: dict[str, list[str]] = {}
    for tag, digest in sorted(tags.items()):
        tagged.setdefault(digest, []).append(tag)
    newest = sorted(found, key=lambda each: (as_time(each.created) or "", each.digest), reverse=True)
    return [
        {
            "name": name, "version": each.digest, "tags": tagged.get(each.digest, []), "created": as_time(each.created),
            "size": each.size, "uri": there.location(name, each.digest),
        }
        for each in newest
    ]  # fmt: skip


def tags_of(settings: Settings, template: Template) -> list[str]:
    """The tags that point to this version.

    Raises:
        WorkFailed: Google refused or could not be reached.
    """
    there = store(settings, template.place)
    with there.explaining(f"list the tags of {template.name}"):
        return sorted(tag for tag, digest in there.tags(template.name).items() if digest == template.digest)


def as_time(value: Any) -> str | None:
    """RFC 3339 in UTC, to the second."""
    from datetime import UTC

    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if value else None
