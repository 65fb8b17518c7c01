"""The methods and messages of Google's APIs, from the discovery documents in google-api-python-client.

https://developers.google.com/discovery/v1/reference/apis
"""

import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote


@dataclass(frozen=True)
class Method:
    id: str
    http_method: str
    #: Path with the API's names: v1/{+name}:cancel.
    template: str
    #: Path by segments: v1/projects/{projectsId}/.../{pipelineJobsId}:cancel.
    flat: str
    parameters: dict[str, dict[str, Any]]
    request: str | None
    response: str | None
    document: "Document" = field(repr=False, compare=False)

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        parts = re.split(r"\{(\+?\w+)\}", self.template)
        parts[::2] = map(re.escape, parts[::2])
        parts[1::2] = (f"(?P<{p[1:]}>.+)" if p[0] == "+" else f"(?P<{p}>[^/]+)" for p in parts[1::2])
        return re.compile("".join(parts))

    def path_parameters(self, path: str) -> dict[str, str] | None:
        """Returns the values in the path, or None if it does not match the document."""
        found = self.pattern.fullmatch(path)
        # Slashes in a name stay escaped, as in package names of Artifact Registry.
        values = {k: unquote(v.replace("%2F", "%252F")) for k, v in found.groupdict().items()} if found else None
        for name, value in (values or {}).items():
            if not re.fullmatch(self.parameters[name].get("pattern", ".*"), value):
                return None
        return values

    def fits(self, segments: list[str]) -> int:
        """Returns how many segments match the path literally, or -1 if one does not match."""
        literal = 0
        for expected, given in zip(self.flat.split("/"), segments, strict=True):
            if expected == given:
                literal += 1
            elif not expected.startswith("{"):
                return -1
            elif ":" in expected:
                if not given.endswith(expected[expected.index("}") + 1 :]):
                    return -1
                literal += 1
        return literal


class Document:
    def __init__(self, data: dict[str, Any]):
        self.name = f"{data['name']}.{data['version']}"
        self.schemas: dict[str, dict[str, Any]] = data["schemas"]
        #: Query parameters that every method takes.
        self.parameters: dict[str, dict[str, Any]] = data["parameters"]
        self.methods = {method.id: method for method in self._walk(data, data["servicePath"])}
        self._by_shape: dict[tuple[str, int], list[Method]] = {}
        for method in self.methods.values():
            self._by_shape.setdefault((method.http_method, method.flat.count("/")), []).append(method)

    def _walk(self, node: dict[str, Any], root: str) -> Iterator[Method]:
        for data in node.get("methods", {}).values():
            yield Method(
                id=data["id"],
                http_method=data["httpMethod"],
                template=root + data["path"],
                flat=root + data.get("flatPath", data["path"]),
                parameters=data.get("parameters", {}),
                request=data.get("request", {}).get("$ref"),
                response=data.get("response", {}).get("$ref"),
                document=self,
            )
        for resource in node.get("resources", {}).values():
            yield from self._walk(resource, root)

    def find(self, http_method: str, path: str) -> tuple[Method, dict[str, str]] | None:
        """Finds the method of `path` (as sent, without the first slash), and the values in it."""
        segments = path.split("/")
        candidates = self._by_shape.get((http_method, len(segments) - 1), [])
        scored = sorted(((m.fits(segments), m) for m in candidates), key=lambda pair: -pair[0])
        for score, method in scored:
            values = method.path_parameters(path) if score >= 0 else None
            if values is not None:
                return method, values
        return None


@cache
def document(name: str) -> Document:
    """Returns the discovery document of an API such as aiplatform.v1, read once in a process."""
    package = importlib.util.find_spec("googleapiclient")
    assert package and package.origin, "google-api-python-client is not installed"
    path = Path(package.origin).parent / "discovery_cache" / "documents" / f"{name}.json"
    return Document(json.loads(path.read_bytes()))
