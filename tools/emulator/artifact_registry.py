"""Artifact Registry: repositories, packages, versions, files, tags and images.

https://cloud.google.com/artifact-registry/docs/reference/rest
"""

import hashlib
import re
from collections.abc import Callable
from typing import Any

from .artifact_store import Store, message
from .call import Call
from .errors import ApiError, precondition_error
from .messages import parse
from .operations import EMPTY

REPOSITORY_ID = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
TAG_ID = re.compile(r"[a-zA-Z0-9\-._~:@]{1,128}")


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
        return self.cloud.operations.finish(name, {"@type": kind_url, **self.cloud.as_json(made)})

    def testIamPermissions(self, call: Call) -> Any:
        return self.cloud.policies.test(call)

    def getIamPolicy(self, call: Call) -> Any:
        self.store.name(call.params["resource"], "artifactregistry.repositories.getIamPolicy")
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
        return self.cloud.operations.finish(name, EMPTY)


class Versions(Service):
    prefix = "artifactregistry.projects.locations.repositories.packages.versions"

    def get(self, call: Call) -> Any:
        name = self.store.name(call.name, "artifactregistry.versions.get")
        return self.renderer(call)(self.store.of(self.store.versions, name))

    def list(self, call: Call) -> Any:
        return self.store.page(call, "versions", self.store.versions, self.renderer(call))

    def renderer(self, call: Call) -> Callable[[Any], Any]:
        """Returns a function that adds the tags to a version, if the call asks for the full view."""

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
            raise precondition_error(f"the version {name} is tagged and cannot be deleted without force: {tags}")
        for tag in tags:
            del self.store.tags[tag]
        del self.store.versions[name]
        self.store.content.pop(name, None)
        return self.cloud.operations.finish(name, EMPTY)


class Files(Service):
    prefix = "artifactregistry.projects.locations.repositories.files"

    def list(self, call: Call) -> Any:
        """Lists one file for each version; Google does not document the file's name."""
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
        del self.store.tags[
            self.store.of(self.store.tags, self.store.name(call.name, "artifactregistry.tags.delete")).name
        ]
        return {}


class DockerImages(Service):
    prefix = "artifactregistry.projects.locations.repositories.dockerImages"

    def get(self, call: Call) -> Any:
        self.store.repository(call.name, "artifactregistry.dockerimages.get")
        return self.store.of(self.store.images, self.store.name(call.name, "artifactregistry.dockerimages.get"))

    def list(self, call: Call) -> Any:
        return self.store.page(call, "dockerImages", self.store.images)


SERVICES = (Operations, Repositories, Packages, Versions, Files, Tags, DockerImages)
