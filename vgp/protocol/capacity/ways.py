"""The ladders of a run, found in its control folders: <root of runs>/capacity/<run>/<step>-<digest>/ladder.json."""

import json
import os
from collections.abc import Mapping
from typing import Any

from vgp.protocol.capacity.way import Way, read

NAME = "ladder.json"
#: The module that a step with a ladder runs.
LAUNCHER = "vgp.launch.capacity"
#: Bytes of a document that is read, and objects of a run's control folders.
_MOST_BYTES, _MOST = 4_000_000, 1000
_ATTEMPT_S = 20.0


def has_ladder(spec: Mapping[str, Any]) -> bool:
    """Whether a step of the compiled pipeline ways a ladder: else there is nothing to look for."""
    executors = (spec.get("deploymentSpec") or {}).get("executors") or {}
    containers = [each.get("container") or {} for each in executors.values() if isinstance(each, Mapping)]
    words = [word for each in containers for key in ("command", "args") for word in each.get(key) or ()]
    return any(isinstance(word, str) and LAUNCHER in word for word in words)


def client() -> Any:
    """Google's client of Cloud Storage, as the step's account."""
    from google.cloud.storage import Client

    # Else the library's first use of a bucket starts a thread that reads its metadata, for traces that nobody takes.
    os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
    return Client()


def of_run(client: Any, root: str, run: str) -> tuple[Way, ...]:
    """The ways up, by step. Google's own errors come through.

    Args:
        client: google.cloud.storage.Client.
        root: The root of runs: gs://BUCKET/FOLDER.
        run: Its id.
    """
    bucket, _, folder = root.removeprefix("gs://").partition("/")
    if not root.startswith("gs://") or not run:
        return ()
    prefix = "/".join(filter(None, [folder.strip("/"), "capacity", run])) + "/"
    listed = list(client.list_blobs(bucket, prefix=prefix, max_results=_MOST, timeout=_ATTEMPT_S))
    blobs = [blob for blob in listed if blob.name.endswith(f"/{NAME}") and (blob.size or 0) <= _MOST_BYTES]
    ways = [way for way in map(_document, blobs) if way]
    return tuple(sorted(ways, key=lambda way: way.step))


def _document(blob: Any) -> Way | None:
    from google.api_core.exceptions import NotFound

    try:
        # By its name: a blob of a list is of the generation that was listed, which the launcher may have replaced.
        return read(json.loads(blob.bucket.blob(blob.name).download_as_bytes(timeout=_ATTEMPT_S)))
    except (ValueError, NotFound):
        return None
