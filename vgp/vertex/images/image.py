"""`pipelines image build`: the one image of the steps, from its sources to its digest in pipelines.toml."""

import hashlib
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from vgp.compiling import commit
from vgp.errors import RequestError, WorkFailed
from vgp.settings import FILE_NAME, Settings, write_value
from vgp.vertex import clients
from vgp.vertex.images import build as image_build
from vgp.vertex.images import files as image_source
from vgp.vertex.images import registry as image_registry
from vgp.vertex.images import source as image_upload
from vgp.vertex.images.files import Source

#: Where `plan` puts Cloud Build's configuration.
CONFIGURATION = Path("build/image.json")
_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9-]*@[a-z0-9-]+\.iam\.gserviceaccount\.com")
_PINNED = re.compile(r"[a-z0-9][\w./:-]*@sha256:[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True)
class Options:
    #: Runs the build; None: Cloud Build's default account.
    service_account: str | None = None
    #: Another base image than the Dockerfile's, by digest.
    base: str | None = None
    #: Build sources that are not committed.
    allow_dirty: bool = False


@dataclass(frozen=True)
class Wanted:
    """An image that shall be there, and its tags: that of the source first, then that of the commit."""

    image: image_registry.Image
    source: Source
    tags: tuple[str, ...]
    #: For Cloud Build.
    configuration: dict[str, Any]

    @property
    def reference(self) -> str:
        return f"{image_registry.untagged(self.image)}:{self.tags[0]}"


def build(
    settings: Settings, options: Options, *, console: Console, write: bool = True, root: Path = image_source.ROOT
) -> dict[str, Any]:
    """Has Cloud Build build the image unless it is there, and writes its digest; what --json prints.

    Raises:
        RequestError: a setting is missing or wrong, or the sources differ from the commit.
        WorkFailed: the build failed, or Google refused or could not be reached.
    """
    wanted = want(settings, options, root)
    place = _place(settings) if write else None
    digest = _there(settings, wanted)
    made = None if digest else _build(settings, wanted, console)
    if made:
        digest = _pushed(settings, wanted, made)
    reference = wanted.image.at(str(digest))
    if place:
        write_value(*place, reference)
    where = f"{place[0]}: {'.'.join(place[1])}" if place else None
    how = f"built in {made['id']}" if made else "was there already: the same sources"
    for line in filter(None, (reference, how, where and f"written to {where}")):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return {
        "image": reference, "digest": digest, "tags": list(wanted.tags), "source": wanted.source.digest,
        "build": made and made["id"], "log": made and made.get("logUrl"), "written": where,
    }  # fmt: skip


def plan(settings: Settings, options: Options, *, console: Console, root: Path = image_source.ROOT) -> dict[str, Any]:
    """What `build` would ask for, as a file, and the gcloud command that asks for the same; what --json prints.

    Raises:
        RequestError: as `build`.
    """
    wanted = want(settings, options, root)
    command = [
        "gcloud", "builds", "submit", str(root), "--project", clients.project(settings), "--region", settings.region,
        "--config", str(CONFIGURATION), "--gcs-source-staging-dir", f"{image_upload.folder(settings)}/source",
    ]  # fmt: skip
    CONFIGURATION.parent.mkdir(parents=True, exist_ok=True)
    CONFIGURATION.write_text(json.dumps(wanted.configuration, indent=2) + "\n", encoding="utf-8")
    for line in (f"{wanted.reference} from {len(wanted.source.files)} files", shlex.join(command)):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    return {"tags": list(wanted.tags), "configuration": wanted.configuration, "command": command}


def want(settings: Settings, options: Options, root: Path = image_source.ROOT) -> Wanted:
    """The image that the sources make; checked before anything is asked of Google."""
    image = image_registry.named(settings)
    if options.service_account and not _ACCOUNT.fullmatch(options.service_account):
        raise RequestError(f"'{options.service_account}' is no service account: NAME@PROJECT.iam.gserviceaccount.com.")
    if options.base and not _PINNED.fullmatch(options.base):
        raise RequestError(f"'{options.base}' may be another image tomorrow. Write a base as IMAGE@sha256:...")
    source = image_source.find(root)
    if source.changed and not options.allow_dirty:
        raise RequestError(
            f"{_some(source.changed)} not committed: later nobody could tell what the image was made of. "
            "Commit, or build all the same: --allow-dirty."
        )
    tags = _tags(source, options.base)
    configuration = image_build.configuration(
        [f"{image_registry.untagged(image)}:{tag}" for tag in tags],
        image_source.DOCKERFILE,
        logs=f"{image_upload.folder(settings)}/logs",
        base=options.base,
        service_account=options.service_account,
    )
    return Wanted(image, source, tags, configuration)


def _tags(source: Source, base: str | None) -> tuple[str, ...]:
    """With another base it is another image, and not the one that the commit stands for."""
    made_of = hashlib.sha256(f"{source.digest} {base}".encode()).hexdigest() if base else source.digest
    sha = commit.current(source.root).sha
    return (f"source-{made_of[:16]}", *([sha] if sha and not base and not source.changed else []))


def _there(settings: Settings, wanted: Wanted) -> str | None:
    """Digest of the image, if an earlier build made it. A build that was cut off may have set one tag only."""
    found = (image_registry.digest(settings, wanted.image, tag) for tag in wanted.tags)
    return next((digest for digest in found if digest), None)


def _build(settings: Settings, wanted: Wanted, console: Console) -> dict[str, Any]:
    def tell(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    source = image_upload.upload(settings, wanted.source.digest, image_source.archive(wanted.source))
    begun = image_build.start(settings, {**wanted.configuration, "source": {"storageSource": source}})
    tell(f"build {begun['id']}: {begun.get('logUrl', '')}")
    return image_build.follow(settings, begun, tell)


def _pushed(settings: Settings, wanted: Wanted, made: dict[str, Any]) -> str:
    """The digest that Cloud Build names, if it is what Artifact Registry has."""
    digest = image_build.pushed(made, wanted.reference)
    there = image_registry.digest(settings, wanted.image, wanted.tags[0])
    if there != digest:
        raise WorkFailed(f"{wanted.reference} is {there or 'not there'}, and the build pushed {digest}.")
    return digest


def _place(settings: Settings) -> tuple[Path, tuple[str, ...]]:
    """File and keys to write: where the image stands now, else in the environment."""
    source = settings.source("image")
    if source.kind in ("variable", "flag"):
        raise RequestError(
            f"{source} names the image, and is stronger than the file: what is written there would have no effect. "
            "Unset it, or only build: --no-write."
        )
    if source.document is not None:
        return source.document.path, source.keys
    path = settings.file or Path(FILE_NAME)
    if not path.is_file():
        raise RequestError(f"there is no {path} to write the digest to. Make one: pipelines init. Or --no-write.")
    return path, ("environments", settings.environment, "image") if settings.environment else ("image",)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"
