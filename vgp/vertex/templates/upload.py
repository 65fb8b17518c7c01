"""`vgp upload`: uploads a workflow as a template; equal content is one version, however often it is uploaded."""

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
from vgp.vertex.templates.template_store import Store, Version, format_time
from vgp.workflow.compiling import source_commit
from vgp.workflow.compiling.compile import compile_pipeline


@dataclass(frozen=True)
class Upload:
    """An uploaded version, whose content was downloaded again and verified."""

    name: str
    version: Version
    #: An https:// or gs:// URI, by digest.
    location: str
    #: Whether this call created the version.
    new: bool
    tags: Sequence[str]
    #: Tag -> digest of the other version that it pointed to before.
    moved: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> JsonObject:
        return {
            "name": self.name,
            "version": self.version.digest,
            "uri": self.location,
            "tags": list(self.tags),
            "moved": self.moved,
            "uploaded": self.new,
            "created": format_time(self.version.created),
            "size": self.version.size,
        }


def upload(settings: Settings, name: str, content: bytes, *, tags: Sequence[str], place: str | None = None) -> Upload:
    """Uploads `content`, the spec of the pipeline `name`, and then points `tags` to it.

    Every request may be repeated, so a command that was killed or lost an answer is simply run again. Tags move only
    after the version was downloaded and its digest verified.

    Raises:
        RequestError: the name or a tag is invalid, or no store of templates is set.
        WorkFailed: Google refused or could not be reached, or the stored content differs from `content`.
    """
    schedule_settings.check_package(name)
    tags = [schedule_settings.check_tag(tag) for tag in dict.fromkeys(tags)]
    store = open_store(settings, place)
    digest = PREFIX + hashlib.sha256(content).hexdigest()
    with store.explaining(f"upload {name}"):
        existing = store.find(name, digest)
        if existing is None:
            store.publish(name, content, digest)
        version = _verify_stored(store, name, digest, existing)
        moved = _move_tags(store, name, digest, tags)
    return Upload(name, version, store.location(name, digest), existing is None, tags, moved)


def move_tag(settings: Settings, reference: str, tag: str, *, place: str | None = None) -> tuple[str, str | None]:
    """Points `tag` to the version that `reference` names; returns the new and the previous digest of the tag.

    Raises:
        RequestError: there is no such version, or the tag is invalid.
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
    """Removes the tag NAME:TAG; returns the digest of the version, which stays.

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


def _verify_stored(store: Store, name: str, digest: str, existing: Version | None) -> Version:
    """Returns the stored version, once its content is downloaded and verified."""
    content, version = store.download(name, digest), existing or store.find(name, digest)
    if content is None or version is None:
        raise WorkFailed(f"upload {name}: {digest} was stored, but is not there. Run the command again.")
    parse_verified(name, digest, content)
    return Version(digest, version.created, len(content))


def _move_tags(store: Store, name: str, digest: str, tags: Sequence[str]) -> dict[str, str]:
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
) -> tuple[Upload, source_commit.Commit]:
    """Uploads the workflow `name` with `tags`, the commit's tags and `latest`; returns the commit too.

    Raises:
        RequestError: the workflow, a tag, a setting or the place is wrong; nothing was uploaded.
        WorkFailed: Google refused or could not be reached, or the stored content differs from the sent one.
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
