"""The control folder of a step: small JSON documents, each replaced as a whole by whoever has seen what it replaces.

https://cloud.google.com/storage/docs/request-preconditions
"""

import json
import os
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

#: Seconds that one request may take.
_ATTEMPT_S = 20.0


class Changed(Exception):
    """Another generation of the document is there than the one that was to be replaced."""

    code = 412

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.message = f"{name} is another one by now"


@dataclass(frozen=True)
class Document:
    """A document as it was at one moment."""

    content: Json
    generation: int


class ControlFolder:
    """The documents directly in gs://bucket/folder. Each request is sent once; Google's own errors come through.

    Not for two threads at once.
    """

    def __init__(self, uri: str) -> None:
        from google.cloud.storage import Client

        # Else the library's first use of a bucket starts a thread that reads its metadata, for traces nobody takes.
        os.environ.setdefault("DISABLE_GCS_PYTHON_CLIENT_OTEL_BUCKET_METADATA", "true")
        self.uri = uri.rstrip("/")
        bucket, _, self.prefix = self.uri.removeprefix("gs://").partition("/")
        self.bucket = Client().bucket(bucket)

    def read(self, name: str) -> Document | None:
        """The document; None if there is none, and an empty one (generation kept) for what is no JSON object."""
        from google.api_core.exceptions import NotFound

        blob = self.bucket.blob(f"{self.prefix}/{name}")
        try:
            text = blob.download_as_bytes(retry=None, timeout=_ATTEMPT_S)
        except NotFound:
            return None
        return Document(_object(text), int(blob.generation))

    def write(self, name: str, content: Json, generation: int) -> int:
        """Replaces this generation (0: no document) and returns the new one.

        Raises:
            Changed: another is there; it may be ours, written by a try whose answer was lost.
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
        """Writes a text in place of what is there."""
        self.bucket.blob(f"{self.prefix}/{name}").upload_from_string(text, retry=None, timeout=_ATTEMPT_S)


def _object(text: bytes) -> Json:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
