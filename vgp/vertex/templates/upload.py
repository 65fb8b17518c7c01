"""Publishing a template: one version for the same content, however often and from wherever it is uploaded."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from vgp.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.spec import template_reference
from vgp.spec.template_reference import PREFIX
from vgp.vertex.templates.store import Store, Version, store
from vgp.vertex.templates.template import absent, pinned, verified


@dataclass(frozen=True)
class Uploaded:
    """A version that is in place: downloaded again and found to be what was sent."""

    name: str
    version: Version
    #: An https:// or gs:// URI, by digest.
    location: str
    #: Whether this call made the version; False: it was there already.
    new: bool
    tags: Sequence[str]
    #: Tags that pointed to another version before, with its digest.
    moved: dict[str, str] = field(default_factory=dict)


def upload(settings: Settings, name: str, content: bytes, *, tags: Sequence[str], place: str | None = None) -> Uploaded:
    """Publishes `content`, the spec of the pipeline `name`, and points `tags` to it, in this order.

    Every request may be repeated, so a command that was killed or lost an answer is simply run again. Tags move only
    after the version was downloaded and its digest verified.

    Raises:
        RequestError: the name or a tag cannot be one, or there is no place for templates.
        WorkFailed: Google refused or could not be reached, or gave back something else than was sent.
    """
    template_reference.package(name)
    wanted = [template_reference.tag(tag) for tag in dict.fromkeys(tags)]
    there = store(settings, place)
    digest = PREFIX + hashlib.sha256(content).hexdigest()
    with there.explaining(f"upload {name}"):
        found = there.find(name, digest)
        if found is None:
            there.publish(name, content, digest)
        version = _in_place(there, name, digest, found)
        moved = _point(there, name, digest, wanted)
    return Uploaded(name, version, there.location(name, digest), found is None, wanted, moved)


def move_tag(settings: Settings, reference: str, tag: str, *, place: str | None = None) -> tuple[str, str | None]:
    """Points `tag` to the version that `reference` names; returns that one's digest, and the one before.

    Raises:
        RequestError: there is no such version, or the tag cannot be one.
        WorkFailed: Google refused or could not be reached.
    """
    wanted = template_reference.parse(reference)
    template_reference.tag(tag)
    there = store(settings, wanted.place or place)
    with there.explaining(f"tag {reference}"):
        digest = pinned(there, wanted)
        if there.find(wanted.name, digest) is None:
            raise absent(there, wanted)
        return digest, there.set_tag(wanted.name, tag, digest)


def remove_tag(settings: Settings, reference: str, *, place: str | None = None) -> str:
    """Takes the tag NAME:TAG away; returns the digest of the version, which stays.

    Raises:
        RequestError: there is no such tag, or `reference` names a digest.
        WorkFailed: Google refused or could not be reached.
    """
    wanted = template_reference.parse(reference)
    if not wanted.tag or reference == wanted.name:
        raise RequestError(f"{reference} names no tag. Write NAME:TAG.")
    there = store(settings, wanted.place or place)
    with there.explaining(f"take the tag {reference} away"):
        digest = pinned(there, wanted)
        there.remove_tag(wanted.name, wanted.tag)
        return digest


def _in_place(there: Store, name: str, digest: str, found: Version | None) -> Version:
    content, version = there.download(name, digest), found or there.find(name, digest)
    if content is None or version is None:
        raise WorkFailed(f"upload {name}: {digest} was stored, but is not there. Run the command again.")
    verified(name, digest, content)
    return Version(digest, version.created, len(content))


def _point(there: Store, name: str, digest: str, tags: Sequence[str]) -> dict[str, str]:
    before = {tag: there.set_tag(name, tag, digest) for tag in tags}
    return {tag: old for tag, old in before.items() if old and old != digest}
