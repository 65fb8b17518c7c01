"""`vgp image build`: the one image of the steps, from its sources to its digest in pipelines.toml."""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from rich.console import Console

from vgp.base import whole_files
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text import google_names
from vgp.settings import FILE_NAME, Settings, write_value
from vgp.vertex import clients
from vgp.vertex.google_errors import explained
from vgp.vertex.images import cloud_build
from vgp.vertex.images.source import Source, archive, find
from vgp.vertex.preflight.step_image import Image, parse_image
from vgp.workflow.compiling import source_commit

#: Where `plan` puts Cloud Build's configuration.
CONFIGURATION = Path("build/image.json")
_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9-]*@[a-z0-9-]+\.iam\.gserviceaccount\.com")
_PINNED = re.compile(r"[a-z0-9][\w./:-]*@sha256:[0-9a-f]{64}", re.ASCII)

#: What the image installs where a step's shards are worked on by Dataflow, whose workers run in it, too.
WITH_DATAFLOW = "training beam"


@dataclass(frozen=True)
class Options:
    #: Runs the build; None: Cloud Build's default account.
    service_account: str | None = None
    #: Another base image than the Dockerfile's, by digest.
    base: str | None = None
    #: Build sources that are not committed.
    allow_dirty: bool = False


@dataclass(frozen=True)
class Order:
    """An image that shall be there, and its tags: that of the source first, then that of the commit."""

    image: Image
    source: Source
    tags: tuple[str, ...]
    #: For Cloud Build.
    configuration: JsonObject

    @property
    def reference(self) -> str:
        return f"{untagged(self.image)}:{self.tags[0]}"


def build(settings: Settings, options: Options, *, root: Path, console: Console, write: bool = True) -> JsonObject:
    """Has Cloud Build build the image of the repository `root` unless it is there, and writes its digest.

    Returns:
        What --json prints.

    Raises:
        RequestError: a setting is missing or wrong, or the sources differ from the commit.
        WorkFailed: the build failed, or Google refused or could not be reached.
    """
    order = ordered(settings, options, root)
    place = _place(settings) if write else None
    digest = _existing(settings, order)
    finished = None if digest else _build(settings, order, console)
    if finished:
        digest = _pushed(settings, order, finished)
    reference = order.image.pin(str(digest))
    if place:
        write_value(*place, reference)
    where = f"{place[0]}: {'.'.join(place[1])}" if place else None
    how = f"built in {finished['id']}" if finished else "was there already: the same sources"
    for line in filter(None, (reference, how, where and f"written to {where}")):
        _tell(console, line)
    return {
        "image": reference, "digest": digest, "tags": list(order.tags), "source": order.source.digest,
        "build": finished and finished["id"], "log": finished and finished.get("logUrl"), "written": where,
    }  # fmt: skip


def plan(settings: Settings, options: Options, *, root: Path, console: Console) -> JsonObject:
    """What `build` would ask for, as a file, and the gcloud command that asks for the same; what --json prints.

    Raises:
        RequestError: as `build`.
    """
    order = ordered(settings, options, root)
    path = Path(os.path.relpath(root / CONFIGURATION))
    command = [
        "gcloud", "builds", "submit", str(root), "--project", clients.project(settings), "--region", settings.region,
        "--config", str(path), "--gcs-source-staging-dir", f"{folder(settings)}/source",
    ]  # fmt: skip
    whole_files.write(path, json.dumps(order.configuration, indent=2) + "\n")
    for line in (f"{order.reference} from {len(order.source.files)} files", shlex.join(command)):
        _tell(console, line)
    return {"tags": list(order.tags), "configuration": order.configuration, "command": command}


def ordered(settings: Settings, options: Options, root: Path) -> Order:
    """The image that the sources make; checked before anything is asked of Google."""
    image = named(settings)
    if options.service_account and not _ACCOUNT.fullmatch(options.service_account):
        raise RequestError(
            f"'{options.service_account}' is not a service account: write NAME@PROJECT.iam.gserviceaccount.com."
        )
    if options.base and not _PINNED.fullmatch(options.base):
        raise RequestError(f"'{options.base}' is not pinned by its digest. Write the base as IMAGE@sha256:...")
    source = find(root, settings.dockerfile)
    if source.changed and not options.allow_dirty:
        raise RequestError(
            f"{_some(source.changed)} not committed, so the image could not be traced to its sources. "
            "Commit, or build all the same: --allow-dirty."
        )
    arguments = _arguments(settings, options, source)
    tags = _tags(source, arguments)
    configuration = cloud_build.configuration(
        [f"{untagged(image)}:{tag}" for tag in tags],
        source.dockerfile,
        logs=f"{folder(settings)}/logs",
        arguments=arguments,
        service_account=options.service_account,
    )
    return Order(image, source, tags, configuration)


def _arguments(settings: Settings, options: Options, source: Source) -> dict[str, str]:
    """Returns the build arguments: another base image, and extra packages if a step uses Dataflow."""
    asked = [step for step, request in sorted(settings.steps.items()) if request.dataflow]
    takes = re.search(r"(?mi)^\s*ARG\s+EXTRAS\b", (source.root / source.dockerfile).read_text(encoding="utf-8"))
    given = {"BASE": options.base or "", "EXTRAS": WITH_DATAFLOW if asked and takes else ""}
    return {name: value for name, value in given.items() if value}


def _tags(source: Source, arguments: Mapping[str, str]) -> tuple[str, ...]:
    """With another base, or more in it, it is another image, and not the one that the commit stands for."""
    inputs = " ".join([source.digest, *arguments.values()])
    content = hashlib.sha256(inputs.encode()).hexdigest() if arguments else source.digest
    sha = source_commit.current(source.root).sha
    return (f"source-{content[:16]}", *([sha] if sha and not arguments and not source.changed else []))


def _existing(settings: Settings, order: Order) -> str | None:
    """Digest of the image, if an earlier build made it. A build that was cut off may have set one tag only."""
    digests = (registered_digest(settings, order.image, tag) for tag in order.tags)
    return next((digest for digest in digests if digest), None)


def _build(settings: Settings, order: Order, console: Console) -> JsonObject:
    stored = upload(settings, order.source.digest, archive(order.source))
    started = cloud_build.start(settings, {**order.configuration, "source": {"storageSource": stored}})
    _tell(console, f"build {started['id']}: {started.get('logUrl', '')}")
    return cloud_build.follow(settings, started, lambda line: _tell(console, line))


def _tell(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _pushed(settings: Settings, order: Order, finished: JsonObject) -> str:
    """The digest that Cloud Build names, if it is what Artifact Registry has."""
    pushed = cloud_build.pushed(finished, order.reference)
    stored = registered_digest(settings, order.image, order.tags[0])
    if stored != pushed:
        raise WorkFailed(f"{order.reference} is {stored or 'not there'}, and the build pushed {pushed}.")
    return pushed


def _place(settings: Settings) -> tuple[Path, tuple[str, ...]]:
    """File and keys to write: where the image stands now, else in the environment."""
    source = settings.source("image")
    if source.kind in ("variable", "flag"):
        raise RequestError(
            f"{source} sets the image and overrides the file, so writing the file would have no effect. "
            "Unset it, or only build: --no-write."
        )
    if source.document is not None:
        return source.document.path, source.keys
    path = settings.file or Path(FILE_NAME)
    if not path.is_file():
        raise RequestError(f"there is no {path} to write the digest to. Create it with vgp init, or pass --no-write.")
    return path, ("environments", settings.environment, "image") if settings.environment else ("image",)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def folder(settings: Settings) -> str:
    """`gs://` folder of sources and logs of builds; the builder of infra/identities.tf sees nothing else.

    Raises:
        RequestError: no bucket is set.
    """
    return f"{clients.bucket(settings)}/builds"


def upload(settings: Settings, digest: str, content: bytes) -> dict[str, str]:
    """Where it is, as Cloud Build's `storageSource`. Named by its content, it is sent once.

    Raises:
        WorkFailed: the bucket cannot be written.
    """
    from google.api_core import exceptions

    bucket, inside = google_names.split_uri(folder(settings))
    name = f"{inside}/source/{digest}.tgz"
    with explained("upload the source", settings), closing(clients.storage(settings)) as client:
        blob = client.bucket(bucket).blob(name)
        with suppress(exceptions.PreconditionFailed):  # then it is there
            blob.upload_from_string(
                content, content_type="application/gzip", if_generation_match=0, timeout=clients.ATTEMPT_S
            )
    return {"bucket": bucket, "object": name}


def named(settings: Settings) -> Image:
    """The image of the settings.

    Raises:
        RequestError: it is not in Artifact Registry.
    """
    image = parse_image(settings.image)
    if image is None:
        raise RequestError(
            f"image: '{settings.image}' is not in Artifact Registry, where `vgp image build` puts it. "
            f"Write {settings.region}-docker.pkg.dev/PROJECT/REPOSITORY/training:not-built, and build."
        )
    return image


def untagged(image: Image) -> str:
    """REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE."""
    return f"{image.location}-docker.pkg.dev/{image.project}/{image.repository}/{image.path}"


def registered_digest(settings: Settings, image: Image, tag: str) -> str | None:
    """`sha256:...` of the image that has the tag; None if none has.

    https://cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories.packages.tags/get
    """
    from google.api_core import exceptions

    client = clients.artifact_registry(settings)
    name = f"{image.parent}/packages/{quote(image.path, safe='')}/tags/{tag}"
    with explained(f"look up {image.path}:{tag}", settings):
        try:
            version = client.get_tag(name=name, **clients.reading()).version
        except exceptions.NotFound:
            return None
    return str(version.rsplit("/", 1)[-1])
