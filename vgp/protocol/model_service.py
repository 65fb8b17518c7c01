"""Calls of Vertex AI's model service in one region, and the upload request for a version of our registry.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.models
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vgp.base import google_api
from vgp.base.documents.json_text import JsonObject
from vgp.protocol import file_names

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

# ---- the upload request of a version: its files, its serving container, and its labels

#: The files that serving reads (vgp/serve/endpoint); their checksums are verified.
SERVED = (file_names.CARD, file_names.WEIGHTS)
PORT, PREDICT, HEALTH = 8080, "/predict", "/health"
#: Labels of an uploaded version: its registry, its number, the beginning of its key, and its state.
REGISTRY, NUMBER, KEY, STATE = "registry", "registry-number", "registry-key", "registry-state"
#: https://cloud.google.com/resource-manager/docs/labels-overview
_LONGEST_LABEL = 63
_LONGEST_DESCRIPTION = 2000


class Refused(Exception):
    """A model, version or operation that Vertex AI's registry cannot take, with the reason and the fix."""


def request(
    record: JsonObject, version: JsonObject, *, parent: str, image: str, key: str, labels: Mapping[str, str]
) -> JsonObject:
    """Returns the body of models.upload.

    Args:
        record: The registry's record in its JSON form (vgp/registry/documents.py).
        version: The version in the record.
        parent: The model's resource name; empty if the upload creates the model.
        image: Serving image for versions that do not name an image.
        key: Cloud KMS key; empty: Google's default encryption.
        labels: Labels of the settings.

    Raises:
        Refused: the version is not in a bucket, or has no image with a digest.
    """
    name, vertex_id = str(record["model"]), model_id(record)
    model: JsonObject = {
        "displayName": vertex_id,
        "description": f"Versions of {folder(version)}/registry.json. Change them with `vgp models`: changes made "
        "here are reverted.",
        "versionDescription": _describe_version(version),
        "artifactUri": str(version["model"]),
        "containerSpec": _container(name, version, image),
        "labels": own_labels(version, labels),
    }
    if key:
        model["encryptionSpec"] = {"kmsKeyName": key}
    return {"model": model, **({"parentModel": parent} if parent else {"modelId": vertex_id})}


def folder(version: JsonObject) -> str:
    """Returns the registry's folder for the version's model."""
    return str(version["model"]).rpartition("/versions/")[0]


def model_id(record: JsonObject) -> str:
    """Returns the model's id on Vertex AI: its name, with `-dev` appended for a registry `registry-dev`, so that the
    environments of one project have separate models."""
    name, versions = str(record["model"]), record.get("versions") or ()
    root = folder(versions[0]).rpartition("/")[0].rpartition("/")[2] if versions else ""
    owner = label(root.removeprefix("registry-")) if root.startswith("registry-") else ""
    return f"{name}-{owner}"[:_LONGEST_LABEL] if owner else name


def registry_label(version: JsonObject) -> str:
    """Returns the label of a version's registry, because two registries of a project may have models of one name."""
    return hashlib.sha256(folder(version).encode()).hexdigest()[:12]


def own_labels(version: JsonObject, labels: Mapping[str, str]) -> dict[str, str]:
    """Returns the labels of an uploaded version: those of the settings, its run and pipeline, and the registry's."""
    origin = {name: label(str(version.get(name, ""))) for name in ("run", "pipeline")}
    return {
        **labels,
        **{name: value for name, value in origin.items() if value},
        REGISTRY: registry_label(version),
        NUMBER: str(version["number"]),
        KEY: str(version["key"])[:40],
        STATE: str(version["state"]),
    }


def label(text: str) -> str:
    """Converts a text to a valid value of a label."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:_LONGEST_LABEL].strip("-_")


def servable(version: JsonObject) -> bool:
    """Whether our image can serve the version, which it cannot for the model of a user's own script."""
    return set(SERVED) <= set(version.get("files", {}))


def _describe_version(version: JsonObject) -> str:
    parts = [
        f"Version {version['number']}.",
        version.get("reason", ""),
        f"Trained on {version['data']}." if version.get("data") else "",
        f"Code: {version['commit']}." if version.get("commit") else "",
        f"Report: {version['report']}" if version.get("report") else "",
    ]
    return " ".join(filter(None, parts))[:_LONGEST_DESCRIPTION]


def _container(name: str, version: JsonObject, image: str) -> JsonObject:
    """Returns the serving container: https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements"""
    number, uri = version["number"], str(version["model"])
    if not uri.startswith("gs://"):
        raise Refused(
            f"version {number} of {name} is at {uri}, and Vertex AI reads models from gs:// only. Use a registry in a "
            "bucket."
        )
    image = str(version.get("image") or image)
    if "@sha256:" not in image:
        problem = f"{image} has no digest, and a tag may change" if image else "no image is set"
        raise Refused(
            f"version {number} of {name} has no serving image: {problem}. Set image in pipelines.toml to "
            "NAME@sha256:... (vgp image build does)."
        )
    files = version["files"]
    task = ["--task", str(version["task"])] if version.get("task") else []
    checksums = [word for file in SERVED for word in ("--sha256", f"{file}={files[file]['sha256']}")]
    return {
        "imageUri": image,
        "command": ["python3", "-m", "vgp.steps", "serve"],
        "args": ["--name", name, "--version", str(number), *task, *checksums],
        "ports": [{"containerPort": PORT}],
        "predictRoute": PREDICT,
        "healthRoute": HEALTH,
    }


class ModelService:
    """Calls of the models in `projects/PROJECT/locations/REGION`. Reads are retried, writes are sent once.

    Args:
        session: A `requests` session with credentials.
        base: URL of the API without its version, from `google_api.address`.

    Raises (every method):
        google.api_core.exceptions.GoogleAPICallError: Google refused.
        requests.RequestException: there was no answer; a write may have succeeded.
    """

    def __init__(self, session: "AuthorizedSession", base: str, project: str, region: str) -> None:
        self.session, self.base = session, base
        self.parent = f"projects/{project}/locations/{region}"

    def name(self, model: str, version: str = "") -> str:
        """Returns the resource name of a model, or of one of its versions."""
        return f"{self.parent}/models/{model}" + (f"@{version}" if version else "")

    def versions(self, model: str) -> list[JsonObject]:
        """Lists all versions of a model, oldest first; an empty list if the model does not exist."""
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

    def upload(self, body: JsonObject) -> JsonObject:
        """Uploads the first version of a new model (`modelId`) or another version (`parentModel`); returns the
        operation."""
        return self._send("POST", f"{self.parent}/models:upload", body)

    def operation(self, name: str) -> JsonObject:
        """Reads an operation by its name."""
        return self._read(name)

    def merge_aliases(self, model: str, version: str, aliases: Sequence[str]) -> None:
        """Adds aliases to a version, and removes those with a leading dash."""
        self._send("POST", f"{self.name(model, version)}:mergeVersionAliases", {"versionAliases": list(aliases)})

    def set_labels(self, model: str, version: str, labels: Mapping[str, str]) -> None:
        """Replaces all labels of a version."""
        self._send("PATCH", f"{self.name(model, version)}?updateMask=labels", {"labels": dict(labels)})

    def delete(self, model: str, version: str = "") -> JsonObject:
        """Deletes a version, or a model with its only version; returns the operation."""
        return self._send("DELETE", f"{self.name(model, version)}{':deleteVersion' if version else ''}")

    def _read(self, path: str, query: JsonObject | None = None) -> JsonObject:
        answer: JsonObject = google_api.retry_policy()(lambda: self._send("GET", path, query=query))()
        return answer

    def _send(
        self, method: str, path: str, body: JsonObject | None = None, query: JsonObject | None = None
    ) -> JsonObject:
        from google.api_core.exceptions import from_http_response

        url = f"{self.base}/v1/{path}"
        answer = self.session.request(method, url, json=body, params=query, timeout=google_api.ATTEMPT_S)
        if not answer.ok:
            raise from_http_response(answer)
        return dict(answer.json())
