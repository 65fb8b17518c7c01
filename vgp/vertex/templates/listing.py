"""What is in a place for templates: packages, and the versions of one with their tags."""

from typing import Any

from vgp.settings import Settings, template_reference
from vgp.settings.template_reference import LATEST, Reference
from vgp.vertex.templates.place import open_store
from vgp.vertex.templates.store import as_time
from vgp.vertex.templates.template import Template, absent, resolve


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
    template_reference.package(name)
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
