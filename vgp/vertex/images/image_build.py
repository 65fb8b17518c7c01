"""`vgp image build`: the images of the steps, from their sources to their digests in pipelines.toml.

A Dockerfile makes one image, or two if its last stage begins with `${TARGET}`: `gpu` by default, and `light`.
"""

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
from vgp.settings import FILE_NAME, Settings, write_values
from vgp.vertex import clients
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.images import cloud_build
from vgp.vertex.images.cloud_build import Target
from vgp.vertex.images.source import Source, archive, find_source
from vgp.vertex.preflight.step_image import Image, parse_image
from vgp.workflow.compiling import source_commit

#: The file to which `plan` writes Cloud Build's configuration.
CONFIGURATION = Path("build/image.json")
_ACCOUNT = re.compile(r"[a-z0-9][a-z0-9-]*@[a-z0-9-]+\.iam\.gserviceaccount\.com")
_PINNED = re.compile(r"[a-z0-9][\w./:-]*@sha256:[0-9a-f]{64}", re.ASCII)

#: The build argument EXTRAS if a step uses Dataflow, whose workers run in the image.
WITH_DATAFLOW = "training beam"

#: The targets: the image of all steps, and the smaller image of steps without a GPU.
GPU, LIGHT = "gpu", "light"
_LIGHT_STAGE = re.compile(r"(?mi)^\s*FROM\s.+\sAS\s+light\s*$")
_TARGET = re.compile(r"(?mi)^\s*FROM\s+\$\{?TARGET\b")
_NO_LIGHT = (
    "note: every step pulls the image for GPUs, because {}; a light image for steps without a GPU has a seventh of its "
    "bytes: docs/tutorials/vertex.md, step 4"
)


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
    """The images to build, which differ in their tags: those of the source, and then those of the commit."""

    image: Image
    source: Source
    targets: tuple[Target, ...]
    logs: str
    service_account: str | None
    #: Why there is no target `light`; "" if there is one.
    no_light: str

    def configure(self, targets: Sequence[Target]) -> JsonObject:
        """Returns the build of the targets for Cloud Build, without its source."""
        return cloud_build.configuration(
            targets, self.source.dockerfile, logs=self.logs, service_account=self.service_account
        )


def build(settings: Settings, options: Options, *, root: Path, console: Console, write: bool = True) -> JsonObject:
    """Builds the images of the repository `root` that do not exist with Cloud Build, and writes their digests.

    Returns:
        The fields of --json.

    Raises:
        RequestError: a setting is missing or wrong, or the sources differ from the commit.
        WorkFailed: the build failed, or Google refused or could not be reached.
    """
    order = read_order(settings, options, root)
    place = _find_setting(settings) if write else None
    digests = {target.name: _find_existing_digest(settings, order.image, target) for target in order.targets}
    missing = [target for target in order.targets if not digests[target.name]]
    finished = _build(settings, order, missing, console) if missing else None
    if finished:
        digests |= {target.name: _confirm_digest(settings, order.image, target, finished) for target in missing}
    images = {name: order.image.pin(str(digest)) for name, digest in digests.items()}
    where = _write_images(settings, *place, images) if place else None
    light = f"{images[LIGHT]} for steps without a GPU" if LIGHT in images else _NO_LIGHT.format(order.no_light)
    how = f"built in {finished['id']}" if finished else "was there already: the same sources"
    for line in filter(None, (images[GPU], light, how, where and f"written to {where}")):
        _print_line(console, line)
    return {
        "image": images[GPU], "light_image": images.get(LIGHT), "digest": digests[GPU],
        "tags": _list_target_tags(order.targets[0]), "source": order.source.digest,
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
    configuration = order.configure(order.targets)
    whole_files.write(path, json.dumps(configuration, indent=2) + "\n")
    names = " and ".join(target.references[0] for target in order.targets)
    for line in (f"{names} from {len(order.source.files)} files", shlex.join(command)):
        _print_line(console, line)
    return {"tags": _list_target_tags(order.targets[0]), "configuration": configuration, "command": command}


def read_order(settings: Settings, options: Options, root: Path) -> Order:
    """Returns the images to build, after checks of the settings, options and sources without a call to Google."""
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
    text = (source.root / source.dockerfile).read_text(encoding="utf-8")
    extras, untagged = _list_extras(settings, text), strip_tag(image)
    base = {"BASE": options.base} if options.base else {}
    tags = _list_tags(source, {**base, **extras})
    targets = [Target(GPU, [f"{untagged}:{tag}" for tag in tags], {**base, **extras})]
    no_light = _explain_no_light(settings, source.dockerfile, text)
    if not no_light:
        light_tags = [f"{untagged}:{tag}-{LIGHT}" for tag in _list_tags(source, extras)]
        arguments = {"TARGET": LIGHT, "TORCH_INDEX": str(settings.torch_index), **extras}
        targets.append(Target(LIGHT, light_tags, arguments))
    return Order(image, source, tuple(targets), f"{builds_folder(settings)}/logs", options.service_account, no_light)


def _explain_no_light(settings: Settings, name: str, dockerfile: str) -> str:
    """Returns why the target `light` is not built, or "" if it is."""
    if not _LIGHT_STAGE.search(dockerfile) or not _TARGET.search(dockerfile):
        return f"{name} has no target light"
    return "" if settings.torch_index else "torch_index is not set"


def _list_extras(settings: Settings, dockerfile: str) -> dict[str, str]:
    """Returns the build argument with extra packages if a step uses Dataflow, whose workers run the image."""
    has_extras = re.search(r"(?mi)^\s*ARG\s+EXTRAS\b", dockerfile)
    has_dataflow = any(request.dataflow for request in settings.steps.values())
    return {"EXTRAS": WITH_DATAFLOW} if has_extras and has_dataflow else {}


def _list_tags(source: Source, arguments: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the tags of the image. Build arguments change its content, so it then gets no tag of the commit."""
    inputs = " ".join([source.digest, *arguments.values()])
    content = hashlib.sha256(inputs.encode()).hexdigest() if arguments else source.digest
    sha = source_commit.read_commit(source.root).sha
    return (f"source-{content[:16]}", *([sha] if sha and not arguments and not source.changed else []))


def _list_target_tags(target: Target) -> list[str]:
    return [reference.rpartition(":")[2] for reference in target.references]


def _find_existing_digest(settings: Settings, image: Image, target: Target) -> str | None:
    """Returns the digest of the image if any of its tags exists: an interrupted build may have set only one."""
    digests = (read_registered_digest(settings, image, tag) for tag in _list_target_tags(target))
    return next((digest for digest in digests if digest), None)


def _build(settings: Settings, order: Order, targets: Sequence[Target], console: Console) -> JsonObject:
    stored = upload(settings, order.source.digest, archive(order.source))
    started = cloud_build.start(settings, {**order.configure(targets), "source": {"storageSource": stored}})
    _print_line(console, f"build {started['id']}: {started.get('logUrl', '')}")
    return cloud_build.follow(settings, started, lambda line: _print_line(console, line))


def _print_line(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _confirm_digest(settings: Settings, image: Image, target: Target, finished: JsonObject) -> str:
    """Returns the digest that Cloud Build reports, once Artifact Registry confirms it."""
    reference = target.references[0]
    pushed = cloud_build.find_pushed_digest(finished, reference)
    stored = read_registered_digest(settings, image, _list_target_tags(target)[0])
    if stored != pushed:
        raise WorkFailed(f"{reference} is {stored or 'not there'}, and the build pushed {pushed}.")
    return pushed


def _find_setting(settings: Settings) -> tuple[Path, tuple[str, ...]]:
    """Returns the file and the keys to write the digest to: those that set the image now, else the environment's.

    Raises:
        RequestError: there is no file, or another source overrides what would be written.
    """
    light = settings.source("light_image")
    source = settings.source("image")
    for overriding in (source, light):
        if overriding.kind in ("variable", "flag"):
            raise RequestError(
                f"{overriding} sets the image and overrides the file, so writing the file would have no effect. "
                "Unset it, or only build: --no-write."
            )
    if light.document and light.keys[:-1] != source.keys[:-1]:
        raise RequestError(
            f"{light} sets light_image without the image beside it, and would override the new one. Remove it."
        )
    if source.document is not None:
        return source.document.path, source.keys
    path = settings.file or Path(FILE_NAME)
    if not path.is_file():
        raise RequestError(f"there is no {path} to write the digest to. Create it with vgp init, or pass --no-write.")
    return path, ("environments", settings.environment, "image") if settings.environment else ("image",)


def _write_images(settings: Settings, path: Path, keys: tuple[str, ...], images: Mapping[str, str]) -> str:
    """Writes both images at once and returns where; without a target `light`, empties the earlier `light_image`."""
    changes = {keys: images[GPU]}
    if LIGHT in images or settings.light_image:
        changes[(*keys[:-1], "light_image")] = images.get(LIGHT, "")
    write_values(path, changes)
    return f"{path}: {', '.join('.'.join(name) for name in changes)}"


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
