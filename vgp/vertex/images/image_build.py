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
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.images import cloud_build
from vgp.vertex.images.source import Source, archive, find_source
from vgp.vertex.preflight.step_image import Image, parse_image
from vgp.workflow.compiling import source_commit

#: The file to which `plan` writes Cloud Build's configuration.
CONFIGURATION = Path("build/image.json")
_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9-]*@[a-z0-9-]+\.iam\.gserviceaccount\.com")
_PINNED = re.compile(r"[a-z0-9][\w./:-]*@sha256:[0-9a-f]{64}", re.ASCII)

#: The build argument EXTRAS if a step uses Dataflow, whose workers run in the image.
WITH_DATAFLOW = "training beam"


@dataclass(frozen=True)
class Options:
    """Options of `vgp image build`."""

    #: The account that runs the build; None: Cloud Build's default account.
    service_account: str | None = None
    #: A base image, by digest, in place of the Dockerfile's.
    base: str | None = None
    #: Whether to build sources that are not committed.
    allow_dirty: bool = False


@dataclass(frozen=True)
class Order:
    """An image to build, with its tags: that of the source, then that of the commit."""

    image: Image
    source: Source
    tags: tuple[str, ...]
    #: The build for Cloud Build, without its source.
    configuration: JsonObject

    @property
    def reference(self) -> str:
        return f"{strip_tag(self.image)}:{self.tags[0]}"


def build(settings: Settings, options: Options, *, root: Path, console: Console, write: bool = True) -> JsonObject:
    """Builds the image of the repository `root` with Cloud Build, unless it exists, and writes its digest.

    Returns:
        The fields of --json.

    Raises:
        RequestError: a setting is missing or wrong, or the sources differ from the commit.
        WorkFailed: the build failed, or Google refused or could not be reached.
    """
    order = read_order(settings, options, root)
    place = _find_setting(settings) if write else None
    digest = _find_existing_digest(settings, order)
    finished = None if digest else _build(settings, order, console)
    if finished:
        digest = _confirm_digest(settings, order, finished)
    reference = order.image.pin(str(digest))
    if place:
        write_value(*place, reference)
    where = f"{place[0]}: {'.'.join(place[1])}" if place else None
    how = f"built in {finished['id']}" if finished else "was there already: the same sources"
    for line in filter(None, (reference, how, where and f"written to {where}")):
        _print_line(console, line)
    return {
        "image": reference, "digest": digest, "tags": list(order.tags), "source": order.source.digest,
        "build": finished and finished["id"], "log": finished and finished.get("logUrl"), "written": where,
    }  # fmt: skip


def plan(settings: Settings, options: Options, *, root: Path, console: Console) -> JsonObject:
    """Writes the configuration of `build` to a file and prints the gcloud command that builds it.

    Returns:
        The fields of --json.

    Raises:
        RequestError: as `build`.
    """
    order = read_order(settings, options, root)
    path = Path(os.path.relpath(root / CONFIGURATION))
    command = [
        "gcloud", "builds", "submit", str(root), "--project", clients.project(settings), "--region", settings.region,
        "--config", str(path), "--gcs-source-staging-dir", f"{builds_folder(settings)}/source",
    ]  # fmt: skip
    whole_files.write(path, json.dumps(order.configuration, indent=2) + "\n")
    for line in (f"{order.reference} from {len(order.source.files)} files", shlex.join(command)):
        _print_line(console, line)
    return {"tags": list(order.tags), "configuration": order.configuration, "command": command}


def read_order(settings: Settings, options: Options, root: Path) -> Order:
    """Returns the image to build and its configuration, and checks both before the first call to Google."""
    image = read_image(settings)
    if options.service_account and not _ACCOUNT.fullmatch(options.service_account):
        raise RequestError(
            f"'{options.service_account}' is not a service account: write NAME@PROJECT.iam.gserviceaccount.com."
        )
    if options.base and not _PINNED.fullmatch(options.base):
        raise RequestError(f"'{options.base}' is not pinned by its digest. Write the base as IMAGE@sha256:...")
    source = find_source(root, settings.dockerfile)
    if source.changed and not options.allow_dirty:
        raise RequestError(
            f"{_summarize_files(source.changed)} not committed, so the image could not be traced to its sources. "
            "Commit, or build all the same: --allow-dirty."
        )
    arguments = _list_arguments(settings, options, source)
    tags = _list_tags(source, arguments)
    configuration = cloud_build.configuration(
        [f"{strip_tag(image)}:{tag}" for tag in tags],
        source.dockerfile,
        logs=f"{builds_folder(settings)}/logs",
        arguments=arguments,
        service_account=options.service_account,
    )
    return Order(image, source, tags, configuration)


def _list_arguments(settings: Settings, options: Options, source: Source) -> dict[str, str]:
    """Returns the build arguments: another base image, and extra packages if a step uses Dataflow."""
    dataflow_steps = [step for step, request in sorted(settings.steps.items()) if request.dataflow]
    has_extras = re.search(r"(?mi)^\s*ARG\s+EXTRAS\b", (source.root / source.dockerfile).read_text(encoding="utf-8"))
    arguments = {"BASE": options.base or "", "EXTRAS": WITH_DATAFLOW if dataflow_steps and has_extras else ""}
    return {name: value for name, value in arguments.items() if value}


def _list_tags(source: Source, arguments: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the tags of the image. Build arguments change its content, so it then gets no tag of the commit."""
    inputs = " ".join([source.digest, *arguments.values()])
    content = hashlib.sha256(inputs.encode()).hexdigest() if arguments else source.digest
    sha = source_commit.read_commit(source.root).sha
    return (f"source-{content[:16]}", *([sha] if sha and not arguments and not source.changed else []))


def _find_existing_digest(settings: Settings, order: Order) -> str | None:
    """Returns the digest of the image if any of its tags exists: an interrupted build may have set only one."""
    digests = (read_registered_digest(settings, order.image, tag) for tag in order.tags)
    return next((digest for digest in digests if digest), None)


def _build(settings: Settings, order: Order, console: Console) -> JsonObject:
    stored = upload(settings, order.source.digest, archive(order.source))
    started = cloud_build.start(settings, {**order.configuration, "source": {"storageSource": stored}})
    _print_line(console, f"build {started['id']}: {started.get('logUrl', '')}")
    return cloud_build.follow(settings, started, lambda line: _print_line(console, line))


def _print_line(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _confirm_digest(settings: Settings, order: Order, finished: JsonObject) -> str:
    """Returns the digest that Cloud Build reports, once Artifact Registry confirms it."""
    pushed = cloud_build.find_pushed_digest(finished, order.reference)
    stored = read_registered_digest(settings, order.image, order.tags[0])
    if stored != pushed:
        raise WorkFailed(f"{order.reference} is {stored or 'not there'}, and the build pushed {pushed}.")
    return pushed


def _find_setting(settings: Settings) -> tuple[Path, tuple[str, ...]]:
    """Returns the file and the keys to write the digest to: those that set the image now, else the environment's."""
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


def _summarize_files(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def builds_folder(settings: Settings) -> str:
    """Returns the gs:// folder of the sources and logs of builds; the builder of infra/identities.tf reads no other.

    Raises:
        RequestError: no bucket is set.
    """
    return f"{clients.bucket(settings)}/builds"


def upload(settings: Settings, digest: str, content: bytes) -> dict[str, str]:
    """Uploads the source and returns it as Cloud Build's `storageSource`; its name is its digest, so it is sent once.

    Raises:
        WorkFailed: the bucket cannot be written.
    """
    from google.api_core import exceptions

    bucket, inside = google_names.split_uri(builds_folder(settings))
    name = f"{inside}/source/{digest}.tgz"
    with explain_errors("upload the source", settings), closing(clients.storage(settings)) as client:
        blob = client.bucket(bucket).blob(name)
        with suppress(exceptions.PreconditionFailed):  # the object exists already
            blob.upload_from_string(
                content, content_type="application/gzip", if_generation_match=0, timeout=clients.ATTEMPT_S
            )
    return {"bucket": bucket, "object": name}


def read_image(settings: Settings) -> Image:
    """Returns the image of the settings.

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


def strip_tag(image: Image) -> str:
    """Returns the image's name without tag and digest: REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE."""
    return f"{image.location}-docker.pkg.dev/{image.project}/{image.repository}/{image.path}"


def read_registered_digest(settings: Settings, image: Image, tag: str) -> str | None:
    """Returns the digest, `sha256:...`, of the image with the tag, or None if no image has it.

    https://cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories.packages.tags/get
    """
    from google.api_core import exceptions

    client = clients.artifact_registry(settings)
    name = f"{image.parent}/packages/{quote(image.path, safe='')}/tags/{tag}"
    with explain_errors(f"look up {image.path}:{tag}", settings):
        try:
            version = client.get_tag(name=name, **clients.reading()).version
        except exceptions.NotFound:
            return None
    return str(version.rsplit("/", 1)[-1])
