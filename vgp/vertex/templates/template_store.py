"""The interface of a store of templates: an Artifact Registry repository or a folder in a bucket."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


@dataclass(frozen=True)
class Package:
    """A template with all its versions."""

    name: str
    updated: datetime | None


@dataclass(frozen=True)
class Version:
    """One version of a template. Its name is the digest of its content, so it cannot change."""

    #: `sha256:` and 64 hex digits.
    digest: str
    created: datetime | None
    #: Bytes; None if the store does not report it.
    size: int | None = None


class Store(Protocol):
    """A store of templates. Every method may be repeated; a `digest` is `sha256:` and 64 hex digits."""

    @property
    def place(self) -> str:
        """https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY or gs://BUCKET/FOLDER."""

    def explaining(self, doing: str) -> AbstractContextManager[None]:
        """Returns a context that turns Google's errors into errors with a cause and a fix; `doing` names the action."""

    def packages(self) -> list[Package]: ...

    def versions(self, name: str) -> list[Version]: ...

    def find(self, name: str, digest: str) -> Version | None: ...

    def tags(self, name: str) -> dict[str, str]:
        """Returns the digest of each tag."""

    def find_tag(self, name: str, tag: str) -> str | None:
        """Returns the digest that a tag points to, or None if there is no such tag."""

    def publish(self, name: str, content: bytes, digest: str) -> None: ...

    def download(self, name: str, digest: str) -> bytes | None: ...

    def set_tag(self, name: str, tag: str, digest: str) -> str | None:
        """Creates the tag or moves it; returns the digest that it pointed to before."""

    def remove_tag(self, name: str, tag: str) -> None: ...

    def location(self, name: str, digest: str) -> str:
        """Returns the https:// or gs:// URI of a version."""

    def template_uri(self, name: str, digest: str) -> str | None:
        """Returns the `template_uri` of runs of the version, or None if Vertex AI cannot read this store."""


def format_time(moment: datetime | None) -> str | None:
    """Formats a time as RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None
