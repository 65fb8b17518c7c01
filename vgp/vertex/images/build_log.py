"""The log of a build, which grows as a file in the bucket."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from vgp.base.text import bucket_uri
from vgp.base.text.printable import printable
from vgp.settings import Settings
from vgp.vertex import clients


class Log:
    """Reads what came since it was last asked. A log that cannot be read is said so once, and stops nothing."""

    def __init__(self, settings: Settings, build: dict[str, Any]) -> None:
        bucket, folder = bucket_uri.cut(build["logsBucket"])
        name = "/".join(filter(None, [folder.rstrip("/"), f"log-{build['id']}.txt"]))
        self._url = f"{clients.endpoint(settings, 'storage')}/storage/v1/b/{bucket}/o/{quote(name, safe='')}"
        self._session = clients.session(settings)
        self._link = build.get("logUrl", "")
        self._read, self._rest, self._broken = 0, b"", False

    def new(self) -> Iterator[str]:
        """Whole lines."""
        *lines, self._rest = (self._rest + self._bytes()).split(b"\n")
        for line in lines:
            yield printable(line.decode("utf-8", errors="replace"))
        if self._broken and self._link:
            yield f"the log cannot be read here, but there: {self._link}"
            self._link = ""

    def rest(self) -> Iterator[str]:
        """What is left at the end: new lines, and one that does not end."""
        yield from self.new()
        if self._rest:
            yield printable(self._rest.decode("utf-8", errors="replace"))
            self._rest = b""

    def close(self) -> None:
        self._session.close()

    def _bytes(self) -> bytes:
        """https://cloud.google.com/storage/docs/json_api/v1/objects/get; not by Google's library, which after its
        first read asks for that generation of the object ever after, and the log is a new one each time it grows."""
        import requests
        from google.auth.exceptions import GoogleAuthError

        if self._broken:
            return b""
        since = {"Range": f"bytes={self._read}-"}
        try:
            answer = self._session.get(self._url, params={"alt": "media"}, headers=since, timeout=clients.ATTEMPT_S)
        except (requests.RequestException, GoogleAuthError):
            return b""  # the next look gets it
        self._broken = answer.status_code in (401, 403)
        if answer.status_code not in (200, 206):
            return b""  # not there yet, nothing new, or busy
        content = answer.content[self._read :] if answer.status_code == 200 else answer.content
        self._read += len(content)
        return bytes(content)
