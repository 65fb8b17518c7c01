"""Small templates, and what a place for templates holds of them."""

import hashlib
import json
from typing import Any

from tools.emulator.cloud import Cloud

NAME = "training"
VERSIONS = "artifactregistry.projects.locations.repositories.packages.versions"
TAGS = "artifactregistry.projects.locations.repositories.packages.tags"
UPLOAD, DOWNLOAD = "kfp_registry.upload", "kfp_registry.download"


def spec(description: str = "one", name: str = NAME) -> dict[str, Any]:
    return {"pipelineInfo": {"name": name, "description": description}, "root": {"dag": {"tasks": {}}}}


def content(description: str = "one", name: str = NAME) -> bytes:
    return json.dumps(spec(description, name)).encode()


def digest(of: bytes) -> str:
    return f"sha256:{hashlib.sha256(of).hexdigest()}"


def stored(cloud: Cloud) -> list[str]:
    """Digests in the repository."""
    return sorted(name.rpartition("/")[2] for name in cloud.artifacts.content)


def tagged(cloud: Cloud) -> dict[str, str]:
    """Tag to digest in the repository."""
    tags = cloud.artifacts.tags.values()
    return {tag.name.rpartition("/")[2]: tag.version.rpartition("/")[2] for tag in tags}
