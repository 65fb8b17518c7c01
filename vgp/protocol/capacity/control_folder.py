"""The control folder of a step in a bucket: small JSON documents, replaced by compare-and-swap.

https://cloud.google.com/storage/docs/request-preconditions
"""

import json
import os
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

#: Timeout of one request in seconds.
_ATTEMPT_S = 20.0


class Changed(Exception):
    """A write refused because the document has another generation."""

    code = 412

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.message = f"{name} has changed"


@dataclass(frozen=True)
class Document:
    """A document with its generation."""

    content: Json
    generation: int


class ControlFolder:
    """The documents directly in gs://bucket/folder, without retries; raises Google's errors. Not thread-safe."""

    def __init__(self, uri: str) -> None:
        from google.cloud.storage import Client

        # Otherwise the client starts a thread that reads the bucket's metadata for unused traces.
        os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        self.uri = uri.rstrip("/")
        bucket, _, self.prefix = self.uri.removeprefix("gs://").partition("/")
        self.bucket = Client().bucket(bucket)

    def read(self, name: str) -> Document | None:
        """Returns the document, None without one, and empty content for anything but a JSON object."""
        from google.api_core.exceptions import NotFound

        blob = self.bucket.blob(f"{self.prefix}/{name}")
        try:
            text = blob.download_as_bytes(retry=None, timeout=_ATTEMPT_S)
        except NotFound:
            return None
        return Document(_parse_object(text), int(blob.generation))

    def write(self, name: str, content: Json, generation: int) -> int:
        """Replaces this generation (0 = no document) and returns the new one.

        Raises:
            Changed: there is another generation, perhaps from an earlier try whose answer was lost.
        """
        from google.api_core.exceptions import PreconditionFailed

        blob = self.bucket.blob(f"{self.prefix}/{name}")
        try:
            blob.upload_from_string(
                json.dumps(content, indent=1), content_type="application/json", if_generation_match=generation,
                retry=None, timeout=_ATTEMPT_S,
            )  # fmt: skip
        except PreconditionFailed:
            raise Changed(name) from None
        return int(blob.generation)

    def put(self, name: str, text: str) -> None:
        """Writes or replaces a text."""
        self.bucket.blob(f"{self.prefix}/{name}").upload_from_string(text, retry=None, timeout=_ATTEMPT_S)


def _parse_object(text: bytes) -> Json:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
