"""`vgp upload`: a workflow as a template, one version for the same content, however often it is uploaded."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Console

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings, schedule_settings
from vgp.settings.schedule_settings import LATEST, PREFIX
from vgp.vertex.images import image_contents
from vgp.vertex.templates.template import explain_absence, open_store, parse_verified, resolve_digest
from vgp.vertex.templates.template_store import Store, Version, as_time
from vgp.workflow.compiling import source_commit
from vgp.workflow.compiling.compile import compile_pipeline


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

    def as_json(self) -> JsonObject:
        return {
            "name": self.name,
            "version": self.version.digest,
            "uri": self.location,
            "tags": list(self.tags),
            "moved": self.moved,
            "uploaded": self.new,
            "created": as_time(self.version.created),
            "size": self.version.size,
        }


def upload(settings: Settings, name: str, content: bytes, *, tags: Sequence[str], place: str | None = None) -> Uploaded:
    """Publishes `content`, the spec of the pipeline `name`, and points `tags` to it, in this order.

    Every request may be repeated, so a command that was killed or lost an answer is simply run again. Tags move only
    after the version was downloaded and its digest verified.

    Raises:
        RequestError: the name or a tag cannot be one, or there is no place for templates.
        WorkFailed: Google refused or could not be reached, or gave back something else than was sent.
    """
    schedule_settings.check_package(name)
    tags = [schedule_settings.check_tag(tag) for tag in dict.fromkeys(tags)]
    store = open_store(settings, place)
    digest = PREFIX + hashlib.sha256(content).hexdigest()
    with store.explaining(f"upload {name}"):
        known = store.find(name, digest)
        if known is None:
            store.publish(name, content, digest)
        version = _downloaded(store, name, digest, known)
        moved = _point(store, name, digest, tags)
    return Uploaded(name, version, store.location(name, digest), known is None, tags, moved)


def move_tag(settings: Settings, reference: str, tag: str, *, place: str | None = None) -> tuple[str, str | None]:
    """Points `tag` to the version that `reference` names; returns that one's digest, and the one before.

    Raises:
        RequestError: there is no such version, or the tag cannot be one.
    """
    parsed = schedule_settings.parse_reference(reference)
    schedule_settings.check_tag(tag)
    store = open_store(settings, parsed.place or place)
    with store.explaining(f"tag {reference}"):
        digest = resolve_digest(store, parsed)
        if store.find(parsed.name, digest) is None:
            raise explain_absence(store, parsed)
        return digest, store.set_tag(parsed.name, tag, digest)


def remove_tag(settings: Settings, reference: str, *, place: str | None = None) -> str:
    """Takes the tag NAME:TAG away; returns the digest of the version, which stays.

    Raises:
        RequestError: there is no such tag, or `reference` names a digest.
    """
    parsed = schedule_settings.parse_reference(reference)
    if not parsed.tag or reference == parsed.name:
        raise RequestError(f"{reference} names no tag. Write NAME:TAG.")
    store = open_store(settings, parsed.place or place)
    with store.explaining(f"take the tag {reference} away"):
        digest = resolve_digest(store, parsed)
        store.remove_tag(parsed.name, parsed.tag)
        return digest


def _downloaded(store: Store, name: str, digest: str, known: Version | None) -> Version:
    """The version as it was stored, verified by its content."""
    content, version = store.download(name, digest), known or store.find(name, digest)
    if content is None or version is None:
        raise WorkFailed(f"upload {name}: {digest} was stored, but is not there. Run the command again.")
    parse_verified(name, digest, content)
    return Version(digest, version.created, len(content))


def _point(store: Store, name: str, digest: str, tags: Sequence[str]) -> dict[str, str]:
    before = {tag: store.set_tag(name, tag, digest) for tag in tags}
    return {tag: old for tag, old in before.items() if old and old != digest}


def publish(
    name: str,
    tags: Sequence[str],
    *,
    settings: Settings,
    console: Console,
    place: str | None = None,
    max_usd: float | None = None,
) -> tuple[Uploaded, source_commit.Commit]:
    """Uploads the workflow `name` with `tags`, the commit's tags and `latest`; with the commit that it is of.

    Raises:
        RequestError: the workflow, a tag, a setting or the place is wrong; nothing was uploaded.
        WorkFailed: Google refused or could not be reached, or gave back something else than was sent.
    """
    for tag in tags:
        schedule_settings.check_tag(tag)
    source = source_commit.read_commit(settings.repository.root)
    with console.status("compiling") as status:
        workflow = compile_pipeline(name, settings, max_usd=max_usd)
        image_contents.refuse_missing(settings, workflow.spec, {})
        template = workflow.spec.name
        status.update(f"uploading {template}")
        content = workflow.spec.text.encode()
        return upload(settings, template, content, tags=[*tags, *source.tags, LATEST], place=place), source
