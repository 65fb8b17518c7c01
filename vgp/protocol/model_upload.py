"""One version of our registry as Vertex AI takes it: where its files lie, what serves it, and how it is found again."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]

#: What serving reads of a version, each held to its checksum: vgp/serve/endpoint.
SERVED = ("model.json", "model.safetensors")
PORT, PREDICT, HEALTH = 8080, "/predict", "/health"
#: Labels by which a version of ours is known: the registry that it is of, its number and the beginning of its key.
REGISTRY, NUMBER, KEY, STATE = "registry", "registry-number", "registry-key", "registry-state"
#: https://cloud.google.com/resource-manager/docs/labels-overview
_LONGEST_LABEL = 63
_LONGEST_DESCRIPTION = 2000


class Refused(Exception):
    """What cannot be put into Vertex AI's registry: what was given, the rule, and the fix."""


def request(record: Json, version: Json, *, parent: str, image: str, key: str, labels: Mapping[str, str]) -> Json:
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
    model: dict[str, Any] = {
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


def folder(version: Json) -> str:
    """The registry's folder for this model: versions lie in it under their keys."""
    return str(version["model"]).rpartition("/versions/")[0]


def model_id(record: Json) -> str:
    """The model's id on Vertex AI: its name, and of a registry `registry-dev` also `-dev`, so that the environments of
    one project have models of their own there.
    """
    name, versions = str(record["model"]), record.get("versions") or ()
    root = folder(versions[0]).rpartition("/")[0].rpartition("/")[2] if versions else ""
    owner = label(root.removeprefix("registry-")) if root.startswith("registry-") else ""
    return f"{name}-{owner}"[:_LONGEST_LABEL] if owner else name


def registry_label(version: Json) -> str:
    """What tells this registry from another one: two may have models of one name in one project."""
    return hashlib.sha256(folder(version).encode()).hexdigest()[:12]


def own_labels(version: Json, labels: Mapping[str, str]) -> dict[str, str]:
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


def servable(version: Json) -> bool:
    """Whether our image can serve it: not what a script of somebody's own left."""
    return set(SERVED) <= set(version.get("files", {}))


def _described(version: Json) -> str:
    parts = [
        f"Version {version['number']}.",
        version.get("reason", ""),
        f"Trained on {version['data']}." if version.get("data") else "",
        f"Code: {version['commit']}." if version.get("commit") else "",
        f"Report: {version['report']}" if version.get("report") else "",
    ]
    return " ".join(filter(None, parts))[:_LONGEST_DESCRIPTION]


def _container(name: str, version: Json, image: str) -> dict[str, Any]:
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
