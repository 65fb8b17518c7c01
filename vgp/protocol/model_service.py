"""Vertex AI's model service in one region, by its REST API: what a projection of our registry needs of it.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.models
"""

from collections.abc import Mapping, Sequence
from typing import Any

from vgp.base import google_api

Json = Mapping[str, Any]


class ModelService:
    """Calls of the models in `projects/PROJECT/locations/REGION`. Reads are tried again, writes are sent once.

    Args:
        session: A `requests` session with credentials.
        base: URL of the API without its version, as `google_api.address` tells it.

    Raises (every method):
        google.api_core.exceptions.GoogleAPICallError: Google refused.
        requests.RequestException: there was no answer; what was sent may have been done.
    """

    def __init__(self, session: Any, base: str, project: str, region: str) -> None:
        self.session, self.base = session, base
        self.parent = f"projects/{project}/locations/{region}"

    def name(self, model: str, version: str = "") -> str:
        """The resource name of a model, or of one of its versions."""
        return f"{self.parent}/models/{model}" + (f"@{version}" if version else "")

    def versions(self, model: str) -> list[dict[str, Any]]:
        """Every version, the oldest first; none where there is no such model."""
        from google.api_core.exceptions import NotFound

        path, listed, token = f"{self.name(model)}:listVersions", [], ""
        while True:
            try:
                page = self._read(path, {"pageSize": 100, **({"pageToken": token} if token else {})})
            except NotFound:
                return []
            listed += page.get("models", [])
            token = page.get("nextPageToken", "")
            if not token:
                return sorted(listed, key=lambda version: int(version["versionId"]))

    def upload(self, body: Json) -> dict[str, Any]:
        """The operation that makes a version: the first of a new model (`modelId`), or one more (`parentModel`)."""
        return self._send("POST", f"{self.parent}/models:upload", body)

    def operation(self, name: str) -> dict[str, Any]:
        """The operation of that name."""
        return self._read(name)

    def merge_aliases(self, model: str, version: str, aliases: Sequence[str]) -> None:
        """Gives a version those aliases, and takes from it those that begin with a dash."""
        self._send("POST", f"{self.name(model, version)}:mergeVersionAliases", {"versionAliases": list(aliases)})

    def set_labels(self, model: str, version: str, labels: Json) -> None:
        """Puts these labels of a version in place of those that it has."""
        self._send("PATCH", f"{self.name(model, version)}?updateMask=labels", {"labels": dict(labels)})

    def delete(self, model: str, version: str = "") -> dict[str, Any]:
        """The operation that deletes a version, or a model with its last one."""
        return self._send("DELETE", f"{self.name(model, version)}{':deleteVersion' if version else ''}")

    def _read(self, path: str, query: Json | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = google_api.patient()(lambda: self._send("GET", path, query=query))()
        return answer

    def _send(self, method: str, path: str, body: Json | None = None, query: Json | None = None) -> dict[str, Any]:
        from google.api_core.exceptions import from_http_response

        url = f"{self.base}/v1/{path}"
        answer = self.session.request(method, url, json=body, params=query, timeout=google_api.ATTEMPT_S)
        if not answer.ok:
            raise from_http_response(answer)
        return dict(answer.json())
