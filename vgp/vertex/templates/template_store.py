"""What a place for templates can do, be it an Artifact Registry repository or a folder in a bucket."""

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
    """Every method may be repeated. `digest` is `sha256:` and 64 hex digits everywhere."""

    @property
    def place(self) -> str:
        """https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY or gs://BUCKET/FOLDER."""

    def explaining(self, doing: str) -> AbstractContextManager[None]:
        """Google's errors as what happened and what to do."""

    def packages(self) -> list[Package]: ...

    def versions(self, name: str) -> list[Version]: ...

    def find(self, name: str, digest: str) -> Version | None: ...

    def tags(self, name: str) -> dict[str, str]:
        """Tag to digest."""

    def tagged(self, name: str, tag: str) -> str | None:
        """The digest that a tag points to."""

    def publish(self, name: str, content: bytes, digest: str) -> None: ...

    def download(self, name: str, digest: str) -> bytes | None: ...

    def set_tag(self, name: str, tag: str, digest: str) -> str | None:
        """Creates the tag or moves it; returns the digest that it pointed to before."""

    def remove_tag(self, name: str, tag: str) -> None: ...

    def location(self, name: str, digest: str) -> str:
        """Where a version lies."""

    def template_uri(self, name: str, digest: str) -> str | None:
        """The `template_uri` of a run of this version; None where Vertex AI reads none."""


def as_time(moment: datetime | None) -> str | None:
    """RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if moment else None
