"""Templates in an Artifact Registry repository of format KFP, which the console lists under "existing pipelines".

There are two protocols: content goes through REGION-kfp.pkg.dev, which has no generated client; packages, versions and
tags go through Artifact Registry's API. kfp's own client does both:
https://github.com/kubeflow/pipelines/blob/master/sdk/python/kfp/registry/registry_client.py
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.resource_names import short
from vgp.vertex.templates.template_store import Package, Version

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.artifactregistry_v1 import ArtifactRegistryClient
    from requests import Response

_PLACE = re.compile(r"https://(?P<location>[a-z0-9-]+)-kfp\.pkg\.dev/(?P<project>[^/]+)/(?P<id>[^/]+)")
#: The most that Artifact Registry returns at once.
_PAGE = 1000


@dataclass(frozen=True)
class Repository:
    """A store of templates in the repository `place`, https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY."""

    settings: Settings
    place: str

    @cached_property
    def _parts(self) -> re.Match[str]:
        parts = _PLACE.fullmatch(self.place)
        assert parts, self.place
        return parts

    @property
    def _name(self) -> str:
        return "projects/{project}/locations/{location}/repositories/{id}".format(**self._parts.groupdict())

    @cached_property
    def _registry(self) -> "ArtifactRegistryClient":
        return clients.artifact_registry(self.settings)

    @cached_property
    def _session(self) -> "AuthorizedSession":
        return clients.session(self.settings)

    @contextmanager
    def explaining(self, doing: str) -> Iterator[None]:
        from google.api_core import exceptions

        with explain_errors(doing, self.settings):
            try:
                yield
            except (exceptions.NotFound, exceptions.BadRequest):
                with suppress(exceptions.GoogleAPICallError):
                    self._refuse_missing(doing)
                raise

    def packages(self) -> list[Package]:
        request = {"parent": self._name, "page_size": _PAGE}
        packages = self._registry.list_packages(request=request, **clients.reading())
        return [Package(short(package.name), package.update_time) for package in packages]

    def versions(self, name: str) -> list[Version]:
        request = {"parent": self._package_name(name), "page_size": _PAGE}
        versions = self._list_all(self._registry.list_versions, request)
        sizes = self._read_sizes() if versions else {}
        return [Version(short(one.name), one.create_time, sizes.get(_owner(one.name))) for one in versions]

    def find(self, name: str, digest: str) -> Version | None:
        version = self._get(self._registry.get_version, name=self._version(name, digest))
        return version and Version(short(version.name), version.create_time)

    def tags(self, name: str) -> dict[str, str]:
        request = {"parent": self._package_name(name), "page_size": _PAGE}
        return {short(tag.name): short(tag.version) for tag in self._list_all(self._registry.list_tags, request)}

    def find_tag(self, name: str, tag: str) -> str | None:
        existing = self._get(self._registry.get_tag, name=self._tag(name, tag))
        return existing and short(existing.version)

    def publish(self, name: str, content: bytes, digest: str) -> None:
        """Uploads `content`. The host names a version by its content, so a retry makes no second version."""
        # The file name ends in .yaml as in kfp's client; JSON is valid YAML.
        answer = self._exchange("POST", "", files={"content": (f"{name}.yaml", content)})
        if answer.text.strip() != f"{name}/{digest}":
            raise WorkFailed(
                f"upload {name}: the registry stored it as {answer.text.strip()[:200]!r}, not as {name}/{digest}."
            )

    def download(self, name: str, digest: str) -> bytes | None:
        from google.api_core import exceptions

        try:
            return bytes(self._exchange("GET", f"/{name}/{digest}").content)
        except exceptions.NotFound:
            return None

    def set_tag(self, name: str, tag: str, digest: str) -> str | None:
        from google.api_core import exceptions

        before = self.find_tag(name, tag)
        wanted = {"name": self._tag(name, tag), "version": self._version(name, digest)}
        if before is None:
            request = {"parent": self._package_name(name), "tag_id": tag, "tag": wanted}
            try:
                self._registry.create_tag(request=request, **clients.reading())
                return None
            except exceptions.Conflict:
                pass  # another upload created the tag, or the answer to this request was lost
        if before != digest:
            self._registry.update_tag(request={"tag": wanted, "update_mask": "version"}, **clients.reading())
        return before

    def remove_tag(self, name: str, tag: str) -> None:
        from google.api_core import exceptions

        with suppress(exceptions.NotFound):  # the answer to an earlier attempt was lost
            self._registry.delete_tag(name=self._tag(name, tag), **clients.reading())

    def location(self, name: str, digest: str) -> str:
        return f"{self.place}/{name}/{digest}"

    def template_uri(self, name: str, digest: str) -> str | None:
        return self.location(name, digest)

    def _package_name(self, name: str) -> str:
        return f"{self._name}/packages/{name}"

    def _version(self, name: str, digest: str) -> str:
        return f"{self._package_name(name)}/versions/{digest}"

    def _tag(self, name: str, tag: str) -> str:
        return f"{self._package_name(name)}/tags/{tag}"

    def _get(self, method: Any, **request: Any) -> Any:
        from google.api_core import exceptions

        try:
            return method(**request, **clients.reading())
        except exceptions.NotFound:
            return None

    def _list_all(self, method: Any, request: JsonObject) -> list[Any]:
        """Lists all pages of a package's versions or tags; empty if the package does not exist."""
        from google.api_core import exceptions

        try:
            return list(method(request=request, **clients.reading()))
        except exceptions.NotFound:
            return []

    def _read_sizes(self) -> dict[str, int]:
        """Returns the bytes of each version, or nothing if they cannot be listed, so that a listing never fails here.

        Lists the files of the whole repository, because the API filters by one version at most.
        """
        from google.api_core import exceptions

        request = {"parent": self._name, "page_size": _PAGE}
        with suppress(exceptions.GoogleAPIError):
            files = self._registry.list_files(request=request, **clients.reading())
            return {_owner(file.owner): file.size_bytes for file in files}
        return {}

    def _exchange(self, method: str, path: str, files: Mapping[str, tuple[str, bytes]] | None = None) -> "Response":
        """Sends one request to the host of templates, with retries; raises Google's errors."""
        from google.api_core import exceptions

        parts = urlsplit(self.place)
        origin = self.settings.endpoints.get("kfp_registry") or f"{parts.scheme}://{parts.netloc}"

        def attempt() -> "Response":
            answer = self._session.request(method, origin + parts.path + path, timeout=clients.ATTEMPT_S, files=files)
            if not answer.ok:
                raise exceptions.from_http_response(answer)
            return answer

        return clients.repeating()(attempt)()

    def _refuse_missing(self, doing: str) -> None:
        """Raises an error that names the repository if it is missing or wrong."""
        create = (
            "gcloud artifacts repositories create {id} --repository-format=kfp --location={location} "
            "--project={project}"
        )
        parts = self._parts.groupdict()
        repository = self._get(self._registry.get_repository, name=self._name)
        if repository is None:
            raise WorkFailed(f"{doing}: there is no repository {self.place}.\n  Create it: {create.format(**parts)}")
        if repository.format_.name != "KFP":
            raise WorkFailed(
                f"{doing}: the repository {self.place} is of format {repository.format_.name}, templates need KFP.\n"
                f"  Create one under another name: {create.format(**{**parts, 'id': 'NAME'})}"
            )


def _owner(resource: str) -> str:
    """Returns `PACKAGE/versions/DIGEST` of a resource name, whose first part may have the project's number or id."""
    return resource.rpartition("/packages/")[2]
