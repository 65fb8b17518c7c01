"""The content of Artifact Registry's repositories."""

import re
from collections.abc import Callable, Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError
from .listing import one_page
from .messages import set_time

if TYPE_CHECKING:
    from .cloud import Cloud

NAME_FILTER = re.compile(r'\s*(name|version|owner)\s*=\s*"([^"]*)"\s*')


def message(kind: str, **fields: Any) -> Any:
    from google.cloud import artifactregistry_v1

    made = getattr(artifactregistry_v1, kind)
    return made.pb(made(fields))


class Store:
    """The content of the repositories: messages by resource name, which has the project's id, not its number."""

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.repositories: dict[str, Any] = {}
        self.packages: dict[str, Any] = {}
        self.versions: dict[str, Any] = {}
        self.tags: dict[str, Any] = {}
        self.images: dict[str, Any] = {}
        #: Content of the versions of pipeline templates.
        self.content: dict[str, bytes] = {}

    def name(self, given: str, permission: str) -> str:
        """Returns the name with the project's id. Raises ApiError 403 in another project."""
        numbered = self.cloud.resource(given, permission)
        return numbered.replace(self.cloud.project_number, self.cloud.project, 1)

    def repository(self, given: str, permission: str) -> Any:
        name = self.name(given, permission)
        return self.of(self.repositories, "/".join(name.split("/")[:6]))

    def of(self, things: dict[str, Any], name: str) -> Any:
        if name not in things:
            raise ApiError(404, f'Requested entity was not found: "{name}".')
        return things[name]

    def add_repository(self, name: str, kind: str, description: str = "") -> Any:
        location, repository = name.split("/")[3], name.split("/")[5]
        made = message("Repository", name=name, format_=kind, description=description, mode="STANDARD_REPOSITORY")
        made.registry_uri = f"{location}-{kind.lower()}.pkg.dev/{self.cloud.project}/{repository}"
        self.stamp(made)
        self.repositories[name] = made
        return made

    def add_version(self, repository: str, package: str, version: str, content: bytes) -> str:
        """Adds a version; equal content is not added twice."""
        name = f"{repository}/packages/{package}"
        self.stamp(self.packages.setdefault(name, message("Package", name=name)))
        full = f"{name}/versions/{version}"
        self.stamp(self.versions.setdefault(full, message("Version", name=full)))
        self.content[full] = content
        return full

    def add_image(self, uri: str, *tags: str) -> Any:
        """Adds an image `us-central1-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE@sha256:...`."""
        host, project, repository, image = uri.split("/", 3)
        location = host.removesuffix("-docker.pkg.dev")
        name = f"projects/{project}/locations/{location}/repositories/{repository}/dockerImages/{image}"
        made = message("DockerImage", name=name, uri=uri, tags=list(tags), image_size_bytes=5_000_000_000)
        made.media_type = "application/vnd.docker.distribution.manifest.v2+json"
        set_time(made, "upload_time", self.cloud.clock.now())
        self.images[name] = made
        package, _, digest = image.partition("@")
        self.add_version(name.rpartition("/dockerImages/")[0], package.replace("/", "%2F"), digest, b"")
        for tag in tags:
            self.set_tag(f"{name.rpartition('/dockerImages/')[0]}/packages/{package.replace('/', '%2F')}", tag, digest)
        return made

    def set_tag(self, package: str, tag: str, version: str) -> Any:
        name = f"{package}/tags/{tag}"
        self.tags[name] = message("Tag", name=name, version=f"{package}/versions/{version}")
        return self.tags[name]

    def stamp(self, made: Any) -> None:
        now: datetime = self.cloud.clock.now()
        if not made.HasField("create_time"):
            set_time(made, "create_time", now)
        set_time(made, "update_time", now)

    def page(self, call: Call, key: str, things: dict[str, Any], show: Callable[[Any], Any] = lambda one: one) -> Any:
        """Returns a page of the resources directly below the call's parent."""
        parent = self.name(call.parent, f"artifactregistry.{key.lower()}.list")
        if "/repositories/" in parent:
            self.repository(parent, f"artifactregistry.{key.lower()}.list")

        def names() -> list[str]:
            inside = [n for n in things if n.rpartition("/")[0].rpartition("/")[0] == parent]
            return sorted(filter_names(inside, things, call.query.get("filter", "")))

        page, following = self.cloud.pages.cut_page(call.query, names)
        shown = [self.cloud.as_json(show(things[n]), integers=True) for n in page if n in things]
        return one_page(key, shown, following)


def filter_names(names: Iterable[str], things: dict[str, Any], text: str) -> list[str]:
    if not text:
        return list(names)
    found = NAME_FILTER.fullmatch(text)
    if not found:
        raise ApiError(400, f"Invalid filter: {text!r}.")
    return [name for name in names if fnmatchcase(getattr(things[name], found[1]), found[2])]
