"""Images in Artifact Registry: the name in parts, and what a tag stands for."""

from typing import Any
from urllib.parse import quote

from vgp.base.errors import RequestError
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.errors import explained
from vgp.vertex.preflight.image import Image, parsed


def named(settings: Settings) -> Image:
    """The image of the settings.

    Raises:
        RequestError: it is not in Artifact Registry.
    """
    image = parsed(settings.image)
    if image is None:
        raise RequestError(
            f"image: '{settings.image}' is not in Artifact Registry, where `vgp image build` puts it. "
            f"Write {settings.region}-docker.pkg.dev/PROJECT/REPOSITORY/training:not-built, and build."
        )
    return image


def untagged(image: Image) -> str:
    """REGION-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE."""
    return f"{image.location}-docker.pkg.dev/{image.project}/{image.repository}/{image.path}"


def digest(settings: Settings, image: Image, tag: str) -> str | None:
    """`sha256:...` of the image that has the tag; None if none has.

    https://cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories.packages.tags/get
    """
    from google.api_core import exceptions

    client: Any = clients.artifact_registry(settings)
    name = f"{image.parent}/packages/{quote(image.path, safe='')}/tags/{tag}"
    with explained(f"look up {image.path}:{tag}", settings):
        try:
            version = client.get_tag(name=name, **clients.reading()).version
        except exceptions.NotFound:
            return None
    return str(version.rsplit("/", 1)[-1])
