"""Vertex AI's model service in one region, by its REST API, and a version of our registry as it takes it.

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

# ---- one version of our registry as Vertex AI takes it: where its files lie, what serves it, and how it is found again

#: What serving reads of a version, each held to its checksum: vgp/serve/endpoint.
SERVED = (file_names.CARD, file_names.WEIGHTS)
PORT, PREDICT, HEALTH = 8080, "/predict", "/health"
#: Labels by which a version of ours is known: the registry that it is of, its number and the beginning of its key.
REGISTRY, NUMBER, KEY, STATE = "registry", "registry-number", "registry-key", "registry-state"
#: https://cloud.google.com/resource-manager/docs/labels-overview
_LONGEST_LABEL = 63
_LONGEST_DESCRIPTION = 2000


class Refused(Exception):
    """What cannot be put into Vertex AI's registry: what was given, the rule, and the fix."""


def request(
    record: JsonObject, version: JsonObject, *, parent: str, image: str, key: str, labels: Mapping[str, str]
) -> JsonObject:
    """The body of models.upload without what says which model it is.

    Args:
        record, version: In their JSON form, as vgp/registry/documents.py describes them.
        parent: The model's resource name if there is one already; empty: this makes it.
        image: What serves versions that do not name theirs.
        key: Cloud KMS key; empty: Google's own encryption.
        labels: Those of the settings.

    Raises:
        Refused: the version's files or its image are of this machine, or it is no model that our image serves.
    """
    name, there = str(record["model"]), model_id(record)
    model: JsonObject = {
        "displayName": there,
        "description": f"Versions of {folder(version)}/registry.json. Change them with `vgp models`: what is "
        "changed here is put back.",
        "versionDescription": _described(version),
        "artifactUri": str(version["model"]),
        "containerSpec": _container(name, version, image),
        "labels": own_labels(version, labels),
    }
    if key:
        model["encryptionSpec"] = {"kmsKeyName": key}
    return {"model": model, **({"parentModel": parent} if parent else {"modelId": there})}


def folder(version: JsonObject) -> str:
    """The registry's folder for this model: versions lie in it under their keys."""
    return str(version["model"]).rpartition("/versions/")[0]


def model_id(record: JsonObject) -> str:
    """The model's id on Vertex AI: its name, and of a registry `registry-dev` also `-dev`, so that the environments of
    one project have models of their own there.
    """
    name, versions = str(record["model"]), record.get("versions") or ()
    root = folder(versions[0]).rpartition("/")[0].rpartition("/")[2] if versions else ""
    owner = label(root.removeprefix("registry-")) if root.startswith("registry-") else ""
    return f"{name}-{owner}"[:_LONGEST_LABEL] if owner else name


def registry_label(version: JsonObject) -> str:
    """What tells this registry from another one: two may have models of one name in one project."""
    return hashlib.sha256(folder(version).encode()).hexdigest()[:12]


def own_labels(version: JsonObject, labels: Mapping[str, str]) -> dict[str, str]:
    """The labels of the settings, and ours."""
    told = {name: label(str(version.get(name, ""))) for name in ("run", "pipeline")}
    return {
        **labels,
        **{name: value for name, value in told.items() if value},
        REGISTRY: registry_label(version),
        NUMBER: str(version["number"]),
        KEY: str(version["key"])[:40],
        STATE: str(version["state"]),
    }


def label(text: str) -> str:
    """The text as the value of a label."""
    return re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:_LONGEST_LABEL].strip("-_")


def servable(version: JsonObject) -> bool:
    """Whether our image can serve it: not what a script of somebody's own left."""
    return set(SERVED) <= set(version.get("files", {}))


def _described(version: JsonObject) -> str:
    parts = [
        f"Version {version['number']}.",
        version.get("reason", ""),
        f"Trained on {version['data']}." if version.get("data") else "",
        f"Code: {version['commit']}." if version.get("commit") else "",
        f"Report: {version['report']}" if version.get("report") else "",
    ]
    return " ".join(filter(None, parts))[:_LONGEST_DESCRIPTION]


def _container(name: str, version: JsonObject, image: str) -> JsonObject:
    """The one image, serving: https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements"""
    number, where = version["number"], str(version["model"])
    if not where.startswith("gs://"):
        raise Refused(
            f"version {number} of {name} lies at {where}: Vertex AI takes models from gs:// alone. Give a registry "
            "in a bucket, as runs on Vertex AI have it."
        )
    uri = str(version.get("image") or image)
    if "@sha256:" not in uri:
        raise Refused(
            f"version {number} of {name} has no image to serve it: {uri or 'none'} has no digest, and a tag may move. "
            "Set image in pipelines.toml to NAME@sha256:... (vgp image build does)."
        )
    files = version["files"]
    task = ["--task", str(version["task"])] if version.get("task") else []
    checksums = [word for served in SERVED for word in ("--sha256", f"{served}={files[served]['sha256']}")]
    return {
        "imageUri": uri,
        "command": ["python3", "-m", "vgp.steps", "serve"],
        "args": ["--name", name, "--version", str(number), *task, *checksums],
        "ports": [{"containerPort": PORT}],
        "predictRoute": PREDICT,
        "healthRoute": HEALTH,
    }


class ModelService:
    """Calls of the models in `projects/PROJECT/locations/REGION`. Reads are tried again, writes are sent once.

    Args:
        session: A `requests` session with credentials.
        base: URL of the API without its version, as `google_api.address` tells it.

    Raises (every method):
        google.api_core.exceptions.GoogleAPICallError: Google refused.
        requests.RequestException: there was no answer; what was sent may have been done.
    """

    def __init__(self, session: "AuthorizedSession", base: str, project: str, region: str) -> None:
        self.session, self.base = session, base
        self.parent = f"projects/{project}/locations/{region}"

    def name(self, model: str, version: str = "") -> str:
        """The resource name of a model, or of one of its versions."""
        return f"{self.parent}/models/{model}" + (f"@{version}" if version else "")

    def versions(self, model: str) -> list[JsonObject]:
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

    def upload(self, body: JsonObject) -> JsonObject:
        """The operation that makes a version: the first of a new model (`modelId`), or one more (`parentModel`)."""
        return self._send("POST", f"{self.parent}/models:upload", body)

    def operation(self, name: str) -> JsonObject:
        """The operation of that name."""
        return self._read(name)

    def merge_aliases(self, model: str, version: str, aliases: Sequence[str]) -> None:
        """Gives a version those aliases, and takes from it those that begin with a dash."""
        self._send("POST", f"{self.name(model, version)}:mergeVersionAliases", {"versionAliases": list(aliases)})

    def set_labels(self, model: str, version: str, labels: Mapping[str, str]) -> None:
        """Puts these labels of a version in place of those that it has."""
        self._send("PATCH", f"{self.name(model, version)}?updateMask=labels", {"labels": dict(labels)})

    def delete(self, model: str, version: str = "") -> JsonObject:
        """The operation that deletes a version, or a model with its last one."""
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
