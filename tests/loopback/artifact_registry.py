"""Artifact Registry: repositories, packages, versions, files, tags and images.

https://cloud.google.com/artifact-registry/docs/reference/rest
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError, failed_precondition
from .listing import one_page
from .messages import parse, set_time
from .operations import EMPTY

if TYPE_CHECKING:
    from .cloud import Cloud

NAME_FILTER = re.compile(r'\s*(name|version|owner)\s*=\s*"([^"]*)"\s*')
REPOSITORY_ID = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
TAG_ID = re.compile(r"[a-zA-Z0-9\-._~:@]{1,128}")


def message(kind: str, **fields: Any) -> Any:
    from google.cloud import artifactregistry_v1

    made = getattr(artifactregistry_v1, kind)
    return made.pb(made(fields))


class Store:
    """What is in the repositories: messages by resource name, which holds the project's id (not its number)."""

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
        """The name with the project's id; 403 in another project."""
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
        """The same content again is the same version."""
        name = f"{repository}/packages/{package}"
        self.stamp(self.packages.setdefault(name, message("Package", name=name)))
        full = f"{name}/versions/{version}"
        self.stamp(self.versions.setdefault(full, message("Version", name=full)))
        self.content[full] = content
        return full

    def add_image(self, uri: str, *tags: str) -> Any:
        """`us-central1-docker.pkg.dev/PROJECT/REPOSITORY/IMAGE@sha256:...`."""
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
        """The page of what is directly in the call's parent."""
        parent = self.name(call.parent, f"artifactregistry.{key.lower()}.list")
        if "/repositories/" in parent:
            self.repository(parent, f"artifactregistry.{key.lower()}.list")

        def names() -> list[str]:
            inside = [n for n in things if n.rpartition("/")[0].rpartition("/")[0] == parent]
            return sorted(filtered(inside, things, call.query.get("filter", "")))

        page, following = self.cloud.pages.cut(call.query, names)
        shown = [self.cloud.as_json(show(things[n]), integers=True) for n in page if n in things]
        return one_page(key, shown, following)


def filtered(names: Iterable[str], things: dict[str, Any], text: str) -> list[str]:
    if not text:
        return list(names)
    found = NAME_FILTER.fullmatch(text)
    if not found:
        raise ApiError(400, f"Invalid filter: {text!r}.")
    return [name for name in names if fnmatchcase(getattr(things[name], found[1]), found[2])]


class Service:
    def __init__(self, store: Store):
        self.store = store
        self.cloud = store.cloud


class Operations(Service):
    prefix = "artifactregistry.projects.locations.operations"

    def get(self, call: Call) -> Any:
        return self.cloud.operations.get(call)


class Repositories(Service):
    prefix = "artifactregistry.projects.locations.repositories"

    def get(self, call: Call) -> Any:
        return self.store.repository(call.name, "artifactregistry.repositories.get")

    def list(self, call: Call) -> Any:
        return self.store.page(call, "repositories", self.store.repositories)

    def create(self, call: Call) -> Any:
        parent = self.store.name(call.parent, "artifactregistry.repositories.create")
        name = f"{parent}/repositories/{call.query.get('repositoryId', '')}"
        if not REPOSITORY_ID.fullmatch(call.query.get("repositoryId", "")):
            raise ApiError(400, f"Invalid repository id: {call.query.get('repositoryId', '')!r}.")
        if name in self.store.repositories:
            raise ApiError(409, "the repository already exists")
        asked = parse(call.body, message("Repository"))
        kind = asked.DESCRIPTOR.fields_by_name["format_"].enum_type.values_by_number[asked.format_].name
        made = self.store.add_repository(name, kind, asked.description)
        made.labels.update(asked.labels)
        kind_url = "type.googleapis.com/google.devtools.artifactregistry.v1.Repository"
        return self.cloud.operations.done(name, {"@type": kind_url, **self.cloud.as_json(made)})

    def testIamPermissions(self, call: Call) -> Any:
        return self.cloud.policies.test(call)

    def getIamPolicy(self, call: Call) -> Any:
        return self.cloud.policies.get(call)


class Packages(Service):
    prefix = "artifactregistry.projects.locations.repositories.packages"

    def get(self, call: Call) -> Any:
        self.store.repository(call.name, "artifactregistry.packages.get")
        return self.store.of(self.store.packages, self.store.name(call.name, "artifactregistry.packages.get"))

    def list(self, call: Call) -> Any:
        return self.store.page(call, "packages", self.store.packages)

    def delete(self, call: Call) -> Any:
        name = self.get(call).name
        for things in (self.store.packages, self.store.versions, self.store.tags, self.store.content):
            for inside in [n for n in things if n == name or n.startswith(f"{name}/")]:
                del things[inside]
        return self.cloud.operations.done(name, EMPTY)


class Versions(Service):
    prefix = "artifactregistry.projects.locations.repositories.packages.versions"

    def get(self, call: Call) -> Any:
        name = self.store.name(call.name, "artifactregistry.versions.get")
        return self.shown(call)(self.store.of(self.store.versions, name))

    def list(self, call: Call) -> Any:
        return self.store.page(call, "versions", self.store.versions, self.shown(call))

    def shown(self, call: Call) -> Callable[[Any], Any]:
        """With the tags in the full view only."""

        def show(version: Any) -> Any:
            if call.query.get("view") in ("FULL", "2"):
                tags = [tag for tag in self.store.tags.values() if tag.version == version.name]
                version = type(version).FromString(version.SerializeToString())
                version.related_tags.extend(tags)
            return version

        return show

    def delete(self, call: Call) -> Any:
        name = self.get(call).name
        tags = [tag.name for tag in self.store.tags.values() if tag.version == name]
        if tags and call.query.get("force", "false").lower() != "true":
            raise failed_precondition(f"the version {name} is tagged and cannot be deleted without force: {tags}")
        for tag in tags:
            del self.store.tags[tag]
        del self.store.versions[name]
        self.store.content.pop(name, None)
        return self.cloud.operations.done(name, EMPTY)


class Files(Service):
    prefix = "artifactregistry.projects.locations.repositories.files"

    def list(self, call: Call) -> Any:
        """One file a version; what Google names it is not documented."""
        files = {}
        for owner, content in self.store.content.items():
            repository, _, version = owner.partition("/packages/")
            name = f"{repository}/files/{version.replace('/versions/', '%2F')}"
            files[name] = message("File", name=name, owner=owner, size_bytes=len(content))
            digest = {"type_": "SHA256", "value": hashlib.sha256(content).digest()}
            files[name].hashes.add().CopyFrom(message("Hash", **digest))
        return self.store.page(call, "files", files)


class Tags(Service):
    prefix = "artifactregistry.projects.locations.repositories.packages.tags"

    def get(self, call: Call) -> Any:
        return self.store.of(self.store.tags, self.store.name(call.name, "artifactregistry.tags.get"))

    def list(self, call: Call) -> Any:
        return self.store.page(call, "tags", self.store.tags)

    def create(self, call: Call) -> Any:
        package, tag = self.store.name(call.parent, "artifactregistry.tags.create"), call.query.get("tagId", "")
        if f"{package}/tags/{tag}" in self.store.tags:
            raise ApiError(409, f"the tag {tag} already exists")
        return self.point(package, tag, call.body)

    def patch(self, call: Call) -> Any:
        name = self.store.name(call.name, "artifactregistry.tags.update")
        package, _, tag = name.rpartition("/tags/")
        self.store.of(self.store.tags, name)
        return self.point(package, tag, call.body)

    def point(self, package: str, tag: str, body: Any) -> Any:
        if not TAG_ID.fullmatch(tag):
            raise ApiError(400, f"Invalid tag: {tag!r}.")
        version = self.store.name(parse(body, message("Tag")).version, "artifactregistry.tags.update")
        self.store.of(self.store.packages, package)
        if version not in self.store.versions or not version.startswith(f"{package}/versions/"):
            raise ApiError(404, f"the version {version!r} does not exist in {package}")
        return self.store.set_tag(package, tag, version.rpartition("/")[2])

    def delete(self, call: Call) -> Any:
        del self.store.tags[self.get(call).name]
        return {}


class DockerImages(Service):
    prefix = "artifactregistry.projects.locations.repositories.dockerImages"

    def get(self, call: Call) -> Any:
        self.store.repository(call.name, "artifactregistry.dockerimages.get")
        return self.store.of(self.store.images, self.store.name(call.name, "artifactregistry.dockerimages.get"))

    def list(self, call: Call) -> Any:
        return self.store.page(call, "dockerImages", self.store.images)


SERVICES = (Operations, Repositories, Packages, Versions, Files, Tags, DockerImages)
