"""Checks of the images of the steps: they exist, are pinned by digest, are near, and Vertex AI can read them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.preflight.access import IMAGES, Policies, Policy, Resource, find_runner, list_service_agents
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options

if TYPE_CHECKING:
    from google.cloud.artifactregistry_v1 import ArtifactRegistryClient, DockerImage

_NAME = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/:@]+)/(?P<path>[^:@]+)"
    r"(?::(?P<tag>[^@]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True)
class Image:
    """The parts of the name of an image in Artifact Registry."""

    location: str
    project: str
    repository: str
    path: str
    tag: str | None
    digest: str | None

    @property
    def parent(self) -> str:
        return f"projects/{self.project}/locations/{self.location}/repositories/{self.repository}"

    @property
    def grant(self) -> str:
        """The gcloud command that grants a role on its repository, without --member and --role."""
        return (
            f"gcloud artifacts repositories add-iam-policy-binding {self.repository} --project {self.project} "
            f"--location {self.location}"
        )

    def pin(self, digest: str) -> str:
        return f"{self.location}-docker.pkg.dev/{self.project}/{self.repository}/{self.path}@{digest}"


def parse_image(name: str) -> Image | None:
    """Returns the parts of an image's name, or None if it is not in Artifact Registry."""
    parts = _NAME.fullmatch(name)
    return Image(**parts.groupdict()) if parts else None


def list_questions(settings: Settings, project: Project, policies: Policies) -> Iterator[Question]:
    own = [image for _, request in sorted(settings.steps.items()) for image in request.images]
    for name in dict.fromkeys([settings.image, *filter(None, [settings.light_image]), *own]):
        yield from _list_image_questions(settings, name, project, policies)


def _list_image_questions(settings: Settings, name: str, project: Project, policies: Policies) -> Iterator[Question]:
    image = parse_image(name)
    if image is None:
        seen = "is not in Artifact Registry and was not looked at"
        hint = f"Vertex AI pulls fastest from {settings.region}-docker.pkg.dev: vgp image build"
        yield Question("image.exists", name, lambda: [Finding("image.exists", name, "unknown", seen, hint)])
        return
    yield Question("image.exists", name, lambda: _check_image(settings, name, image))
    yield Question("image.region", name, lambda: [_check_region(settings, name, image)])
    yield Question("image.reader", name, lambda: _check_reader(settings, name, image, project, policies))


def _check_image(settings: Settings, name: str, image: Image) -> Iterator[Finding]:
    """https://cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories.dockerImages/get"""
    from google.api_core import exceptions

    client = clients.artifact_registry(settings)
    try:
        digest = image.digest or _read_digest(client, image)
        stored = client.get_docker_image(
            name=f"{image.parent}/dockerImages/{quote(image.path, safe='')}@{digest}", **call_options()
        )
    except exceptions.NotFound:
        hint = (
            "Build it: vgp image build"
            if name in (settings.image, settings.light_image)
            else "Push it, or name one that is there"
        )
        yield Finding("image.exists", name, "error", "is not there", hint)
        return
    yield Finding("image.exists", name, "ok", _format_size(stored))
    if image.digest:
        yield Finding("image.digest", name, "ok", "is named by its digest")
        return
    seen = "is named by a tag: who moves it changes what runs, and cached steps do not notice"
    yield Finding("image.digest", name, "warning", seen, f'In pipelines.toml: image = "{image.pin(digest)}"')


def _read_digest(client: "ArtifactRegistryClient", image: Image) -> str:
    tag = client.get_tag(
        name=f"{image.parent}/packages/{quote(image.path, safe='')}/tags/{image.tag}", **call_options()
    )
    return str(tag.version.rsplit("/", 1)[-1])


def _format_size(stored: "DockerImage") -> str:
    uploaded = f", uploaded {stored.upload_time:%Y-%m-%d}" if stored.upload_time else ""
    size = f" ({stored.image_size_bytes / 1e9:.1f} GB{uploaded})" if stored.image_size_bytes else ""
    return f"is there{size}"


def _check_region(settings: Settings, name: str, image: Image) -> Finding:
    """Regions and multi-regions: https://cloud.google.com/artifact-registry/docs/repositories/repo-locations"""
    is_near = image.location == settings.region or image.location == settings.region.split("-")[0]
    if is_near:
        return Finding("image.region", name, "ok", f"is in {image.location}")
    seen = f"is in {image.location}, the runs are in {settings.region}: every start pulls it across regions"
    return Finding("image.region", name, "warning", seen, f"Push it to {settings.region}-docker.pkg.dev")


def read_repository_policy(settings: Settings, image: Image) -> Policy:
    """Reads the IAM policy of the image's repository."""
    from google.iam.v1.iam_policy_pb2 import GetIamPolicyRequest

    client = clients.artifact_registry(settings)
    return Policy.from_message(
        client.get_iam_policy(request=GetIamPolicyRequest(resource=image.parent), **call_options())
    )


def _check_reader(
    settings: Settings, name: str, image: Image, project: Project, policies: Policies
) -> Iterator[Finding]:
    """Checks that the runner can pull the image, and Vertex AI's agents too if it is in another project."""
    own = read_repository_policy(settings, image)
    thing = Resource("image.reader", name, image.project, own, image.grant)
    pullers = [find_runner(settings, project), *(list_service_agents(project) if image.project != project.id else [])]
    yield from (policies.check(email, IMAGES, thing) for email in pullers)
