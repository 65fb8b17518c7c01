"""One object in Cloud Storage that is replaced by compare-and-swap on its generation.

https://cloud.google.com/storage/docs/request-preconditions
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from vgp.base.exits import UserError
from vgp.base.storage.client import Limits, as_os_errors, bucket, explain_denial, retry_policy
from vgp.base.storage.storage import split

if TYPE_CHECKING:
    from google.cloud.storage import Blob
    from requests import Response


@dataclass(frozen=True)
class Version:
    """The object as it was at one moment."""

    data: bytes
    generation: int
    #: Age in seconds by the server's clock, which has whole seconds, so never too high.
    age_s: float


class Slot:
    """The object `gs://bucket/name`. Every method may raise ConnectionError.

    Args:
        deadline_s: Seconds of retries until a method fails.
        stall_s: Seconds without data until a request fails.
        most: Maximum size in bytes; if set, a larger object and a missing permission raise UserError.
    """

    first_pause_s = 0.5

    def __init__(self, path: str, *, deadline_s: float, stall_s: float = 10, most: int | None = None):
        self.path = path
        self.bucket, self.name = split(path)
        self.deadline_s, self.stall_s, self.most = deadline_s, stall_s, most

    def read(self) -> Version | None:
        """Returns the current version, or None without an object."""
        with self._errors():
            while (facts := self._query()) is not None:
                generation, age_s = facts
                if (data := self._data(generation)) is not None:
                    return Version(data, generation, age_s)
        return None

    def facts(self) -> tuple[int, float] | None:
        """Returns the generation and the age in seconds by the server's clock, or None without an object."""
        with self._errors():
            return self._query()

    def generation(self) -> int:
        """Returns the generation, or 0 without an object."""
        facts = self.facts()
        return facts[0] if facts else 0

    def put(self, data: bytes, generation: int) -> int | None:
        """Replaces this generation (0 = no object); returns the new generation, or None if another one exists.

        The other generation may come from an earlier try of this call, whose answer was lost.
        """
        from google.api_core.exceptions import PreconditionFailed

        blob = self._blob()
        with self._errors("written"):
            try:
                blob.upload_from_string(data, if_generation_match=generation, **self._limits())
            except PreconditionFailed:
                return None
        return int(blob.generation)

    def delete(self, generation: int) -> bool:
        """Deletes this generation; returns False if another one exists, and True if the object is already gone."""
        from google.api_core.exceptions import NotFound, PreconditionFailed

        with self._errors("deleted"):
            try:
                self._blob().delete(if_generation_match=generation, **self._limits())
            except NotFound:
                return True
            except PreconditionFailed:
                return False
        return True

    def _query(self) -> tuple[int, float] | None:
        """Returns generation and age from a raw request, because Google's client hides headers such as the date."""
        from google.api_core.exceptions import from_http_response

        blob = self._blob()
        url = blob.client._connection.build_api_url(path=blob.path, query_params={"fields": "generation,updated,size"})

        def ask() -> "Response":
            response = blob.client._http.request("GET", url, timeout=self.stall_s)
            if response.status_code not in (200, 404):
                raise from_http_response(response)
            return response

        response = retry_policy(self.first_pause_s, self.deadline_s, self.path)(ask)()
        if response.status_code == 404:
            return None
        facts = response.json()
        if self.most is not None and int(facts["size"]) > self.most:
            raise UserError(f"{self.path} is larger than {self.most >> 20} MiB, the maximum.")
        now, written = parsedate_to_datetime(response.headers["Date"]), datetime.fromisoformat(facts["updated"])
        return int(facts["generation"]), max(0.0, (now - written).total_seconds())

    def _data(self, generation: int) -> bytes | None:
        """Returns the bytes of the generation, or None if it was replaced meanwhile."""
        from google.api_core.exceptions import NotFound

        try:
            return bytes(self._blob(generation=generation).download_as_bytes(**self._limits()))
        except NotFound:
            return None

    @contextmanager
    def _errors(self, done: str = "read") -> Iterator[None]:
        with as_os_errors(self.path):
            if self.most is None:
                yield
                return
            with explain_denial(self.path, done):
                yield

    def _blob(self, **kwargs: int) -> "Blob":
        return bucket(self.bucket).blob(self.name, **kwargs)

    def _limits(self) -> Limits:
        return {"retry": retry_policy(self.first_pause_s, self.deadline_s, self.path), "timeout": self.stall_s}
