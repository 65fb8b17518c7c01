"""The host of pipeline templates, https://REGION-kfp.pkg.dev, which kfp.registry.RegistryClient calls.

It has no discovery document; the accepted requests are those of kfp:
https://github.com/kubeflow/pipelines/blob/master/sdk/python/kfp/registry/registry_client.py
"""

import hashlib
import re
from email.parser import BytesParser
from email.policy import HTTP
from typing import TYPE_CHECKING, Any

import yaml

from .artifact_registry import TAG_ID
from .artifact_store import Store
from .call import Call
from .errors import ApiError
from .server import Request

if TYPE_CHECKING:
    from .cloud import Cloud

PATH = re.compile(r"/(?P<project>[^/]+)/(?P<repository>[^/]+)(/(?P<package>[^/]+)/(?P<version>[^/]+))?/?")
URI = re.compile(r"https://(?P<location>[a-z0-9-]+)-kfp\.pkg\.dev(?P<path>/.*)")


class Templates:
    """The uploaded templates, as versions of the packages in `store`, named by the SHA-256 of their content."""

    def __init__(self, cloud: "Cloud", store: Store):
        self.cloud, self.store = cloud, store

    def answer(self, request: Request, call: Call) -> bytes:
        found = PATH.fullmatch(request.path)
        if not found:
            raise ApiError(404, f"no such path: {request.path}")
        call.params = {key: value or "" for key, value in found.groupdict().items()}
        location = request.host.removesuffix("-kfp.pkg.dev") or self.cloud.region
        if call.method == "kfp_registry.upload":
            return self.upload(request, call, location)
        return self.content(call.params, location)[1]

    def method(self, request: Request) -> str:
        found = PATH.fullmatch(request.path)
        if found and request.http_method == "POST" and not found["package"]:
            return "kfp_registry.upload"
        if found and request.http_method == "GET" and found["package"]:
            return "kfp_registry.download"
        raise ApiError(404, f"The requested URL {request.path} was not found on this server.")

    def repository(self, params: dict[str, str], location: str, permission: str) -> str:
        name = f"projects/{params['project']}/locations/{location}/repositories/{params['repository']}"
        found = self.store.repository(name, permission)
        if found.registry_uri.split("-kfp.")[0] != location:
            raise ApiError(400, f"the repository {name} is not of the format KFP")
        return str(found.name)

    def upload(self, request: Request, call: Call, location: str) -> bytes:
        repository = self.repository(call.params, location, "artifactregistry.repositories.uploadArtifacts")
        fields = form(request)
        if "content" not in fields:
            raise ApiError(400, "the form has no field content")
        content, tags = fields["content"], [t for t in fields.get("tags", b"").decode().split(",") if t]
        call.body = {"tags": tags, "content": content}
        package, version = package_name(content), f"sha256:{hashlib.sha256(content).hexdigest()}"
        for tag in tags:
            if not TAG_ID.fullmatch(tag) or tag.startswith("sha256:"):
                raise ApiError(400, f"Invalid tag: {tag!r}.")
        self.store.add_version(repository, package, version, content)
        for tag in tags:
            self.store.set_tag(f"{repository}/packages/{package}", tag, version)
        return f"{package}/{version}".encode()

    def content(self, params: dict[str, str], location: str) -> tuple[str, bytes]:
        """Returns a version and its content."""
        repository = self.repository(params, location, "artifactregistry.repositories.downloadArtifacts")
        package, version = f"{repository}/packages/{params['package']}", params["version"]
        if not version.startswith("sha256:"):
            version = self.store.of(self.store.tags, f"{package}/tags/{version}").version.rpartition("/")[2]
        return version, self.store.of(self.store.content, f"{package}/versions/{version}")

    def find(self, uri: str) -> tuple[str, dict[str, Any]]:
        """Returns the version and the spec of a job's `template_uri`."""
        host = URI.fullmatch(uri)
        found = PATH.fullmatch(host["path"]) if host else None
        if not host or not found or not found["package"]:
            raise ApiError(400, f"Invalid template_uri: {uri!r}.")
        version, content = self.content(found.groupdict(), host["location"])
        return version, yaml.safe_load(content)


def form(request: Request) -> dict[str, bytes]:
    """Returns the fields of a multipart/form-data body."""
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/form-data"):
        raise ApiError(400, f"expected multipart/form-data, got {kind!r}")
    parsed = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + request.body)
    parts = {part.get_param("name", header="content-disposition"): part for part in parsed.iter_parts()}
    return {str(name): bytes(part.get_payload(decode=True)) for name, part in parts.items()}


def package_name(content: bytes) -> str:
    """Returns the package's name, which is that of the pipeline."""
    try:
        spec = next(iter(yaml.safe_load_all(content)))
        return str(spec["pipelineInfo"]["name"])
    except (yaml.YAMLError, UnicodeDecodeError, KeyError, TypeError, StopIteration) as error:
        raise ApiError(400, f"the content is no compiled pipeline: {error}") from error
