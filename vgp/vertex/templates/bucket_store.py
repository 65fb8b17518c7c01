"""Templates in a bucket, for projects without Artifact Registry: content-addressed objects and an index of tags.

gs://my-bucket/templates/training/4be6....json    a version, named by the SHA-256 of its content; written once
gs://my-bucket/templates/training/tags.json       {"latest": "sha256:4be6...", ...}; replaced as a whole

Every write has a precondition on the object's generation, so that a repetition or a race damages nothing:
https://cloud.google.com/storage/docs/request-preconditions
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import WorkFailed
from vgp.base.text.google_names import join_uri, split_uri
from vgp.settings import Settings
from vgp.settings.schedule_settings import PREFIX
from vgp.vertex import clients
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.templates.template_store import Package, Version

if TYPE_CHECKING:
    from google.cloud.storage import Blob
    from google.cloud.storage import Bucket as StorageBucket

_OBJECT = re.compile(r"(?P<name>[^/]+)/(?P<sha256>[0-9a-f]{64})\.json")
#: Attempts to write the tags of one template while other uploads change them.
_TAG_ATTEMPTS = 50


@dataclass(frozen=True)
class Bucket:
    """A store of templates in the folder `place`, gs://BUCKET or gs://BUCKET/FOLDER."""

    settings: Settings
    place: str

    @cached_property
    def _bucket(self) -> "StorageBucket":
        return clients.storage(self.settings).bucket(self._bucket_name)

    @property
    def _bucket_name(self) -> str:
        return split_uri(self.place)[0]

    @property
    def _folder(self) -> str:
        """With a slash at the end, or empty."""
        folder = split_uri(self.place)[1]
        return folder and f"{folder}/"

    @contextmanager
    def explaining(self, doing: str) -> Iterator[None]:
        from google.api_core import exceptions

        with explain_errors(doing, self.settings):
            try:
                yield
            except exceptions.NotFound:
                with suppress(exceptions.GoogleAPICallError):
                    self._refuse_missing(doing)
                raise

    def packages(self) -> list[Package]:
        latest: JsonObject = {}
        for match, blob in self._objects(self._folder):
            latest[match["name"]] = max(latest.get(match["name"], blob.time_created), blob.time_created)
        return [Package(name, updated) for name, updated in sorted(latest.items())]

    def versions(self, name: str) -> list[Version]:
        objects = self._objects(f"{self._folder}{name}/")
        return [Version(PREFIX + match["sha256"], blob.time_created, blob.size) for match, blob in objects]

    def find(self, name: str, digest: str) -> Version | None:
        blob = self._bucket.get_blob(self._object_name(name, digest), **clients.storage_reading())
        return blob and Version(digest, blob.time_created, blob.size)

    def tags(self, name: str) -> dict[str, str]:
        return self._index(name)[0]

    def find_tag(self, name: str, tag: str) -> str | None:
        return self.tags(name).get(tag)

    def publish(self, name: str, content: bytes, digest: str) -> None:
        from google.api_core import exceptions

        blob = self._bucket.blob(self._object_name(name, digest))
        # The object exists already after another upload, or after an upload whose answer was lost.
        with suppress(exceptions.PreconditionFailed):
            blob.upload_from_string(
                content, content_type="application/json", if_generation_match=0, **clients.storage_reading()
            )

    def download(self, name: str, digest: str) -> bytes | None:
        return self._read(self._object_name(name, digest))[0]

    def set_tag(self, name: str, tag: str, digest: str) -> str | None:
        return self._write_tag(name, tag, digest)

    def remove_tag(self, name: str, tag: str) -> None:
        self._write_tag(name, tag, None)

    def location(self, name: str, digest: str) -> str:
        return join_uri(self._bucket_name, self._object_name(name, digest))

    def template_uri(self, name: str, digest: str) -> str | None:
        """Returns None: a run carries the spec itself, because a PipelineJob takes only URIs of a template registry:
        https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.pipelineJobs"""
        return None

    def _object_name(self, name: str, digest: str) -> str:
        return f"{self._folder}{name}/{digest.removeprefix(PREFIX)}.json"

    def _objects(self, prefix: str) -> Iterator[tuple[re.Match[str], "Blob"]]:
        """Yields the versions below `prefix`, over all pages."""
        for blob in self._bucket.list_blobs(prefix=prefix, **clients.storage_reading()):
            if match := _OBJECT.fullmatch(blob.name.removeprefix(self._folder)):
                yield match, blob

    def _read(self, name: str) -> tuple[bytes | None, int]:
        """Returns content and generation of an object, or (None, 0) if it does not exist."""
        from google.api_core import exceptions

        blob = self._bucket.blob(name)
        try:
            return blob.download_as_bytes(**clients.storage_reading()), blob.generation
        except exceptions.NotFound:
            return None, 0

    def _index(self, name: str) -> tuple[dict[str, str], int]:
        content, generation = self._read(f"{self._folder}{name}/tags.json")
        return (json.loads(content) if content else {}), generation

    def _write_tag(self, name: str, tag: str, digest: str | None) -> str | None:
        """Points the tag to `digest`, or removes it if that is None; returns the tag's previous digest.

        Replaces the index of tags as a whole; after a conflict retries with the newest index.
        """
        from google.api_core import exceptions

        for _ in range(_TAG_ATTEMPTS):
            index, generation = self._index(name)
            before = index.get(tag)
            if before == digest:
                return before
            index = {key: value for key, value in {**index, tag: digest}.items() if value}
            blob = self._bucket.blob(f"{self._folder}{name}/tags.json")
            text = json.dumps(index, indent=2, sort_keys=True) + "\n"
            with suppress(exceptions.PreconditionFailed):
                blob.upload_from_string(
                    text, content_type="application/json", if_generation_match=generation, **clients.storage_reading()
                )
                return before
        raise WorkFailed(f"tag {name}:{tag}: other uploads keep changing the tags. Run the command again.")

    def _refuse_missing(self, doing: str) -> None:
        if not self._bucket.exists(**clients.storage_reading()):
            raise WorkFailed(
                f"{doing}: there is no bucket gs://{self._bucket_name}.\n  Create it: gcloud storage buckets create "
                f"gs://{self._bucket_name} --location={self.settings.region} --uniform-bucket-level-access"
            )
