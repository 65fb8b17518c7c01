"""The objects below runs/ of the bucket, put together by what they are of.

<bucket>/runs/<project number>/<run>/...   what the steps of a run wrote
<bucket>/runs/checkpoints/<step>-<hash>/   checkpoints, and lease.json while somebody holds them
<bucket>/runs/capacity/<run>/...           the ways up its ladders, heartbeats and progress
<bucket>/runs/pins/<sha256>.json           what a run worked on
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from vgp.base.errors import WorkFailed
from vgp.base.text.google_names import cut_uri, join_uri
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explained

LEASE = "lease.json"
_KINDS = {
    "run": re.compile(r"(?P<folder>\d+/[^/]+)/.*", re.DOTALL),
    "checkpoints": re.compile(r"(?P<folder>checkpoints/[^/]+)/.*", re.DOTALL),
    "capacity": re.compile(r"(?P<folder>capacity/[^/]+)/.*", re.DOTALL),
    "pins": re.compile(r"(?P<folder>pins/[0-9a-f]{64}\.json)"),
}


@dataclass(frozen=True)
class Root:
    """The folder that is cleaned: runs/ of the settings' bucket, and nothing beside it."""

    settings: Settings
    bucket: str
    #: With a slash at its end.
    prefix: str

    @classmethod
    def of(cls, settings: Settings) -> "Root":
        bucket, folder = cut_uri(clients.bucket(settings))
        return cls(settings, bucket, f"{folder}/runs/".lstrip("/"))

    @property
    def uri(self) -> str:
        return join_uri(self.bucket, self.prefix)

    def path(self, name: str) -> str:
        """An object's name below the root. Raises WorkFailed if it is not there."""
        if not name.startswith(self.prefix):
            raise WorkFailed(f"gs://{self.bucket}/{name} is not below {self.uri}: nothing was done with it.")
        return name.removeprefix(self.prefix)


@dataclass(frozen=True)
class Item:
    """An object of one generation."""

    name: str
    generation: int
    bytes: int
    updated: datetime


@dataclass
class Group:
    """Objects that stay or go together."""

    #: run, checkpoints, capacity or pins; other: nothing that a run of ours left.
    kind: str
    #: Below the root.
    folder: str
    items: list[Item] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.items)

    @property
    def updated(self) -> datetime:
        """When the newest of its objects was written."""
        return max(item.updated for item in self.items)

    @property
    def lease(self) -> Item | None:
        return next((item for item in self.items if item.name.endswith(f"/{LEASE}")), None)


def group_of(path: str) -> tuple[str, str]:
    """Kind and folder of the group that an object is of."""
    for kind, pattern in _KINDS.items():
        if match := pattern.fullmatch(path):
            return kind, match["folder"]
    return "other", path.split("/", 1)[0]


def listed(root: Root) -> tuple[list[Group], datetime]:
    """All groups, and the time by the server's clock: a wrong clock of this machine makes nothing old."""
    groups: dict[tuple[str, str], Group] = {}
    with explained(f"list {root.uri}", root.settings):
        client = clients.storage(root.settings)
        now = _time(client, root.bucket)
        for item in items(client, root, root.prefix):
            key = group_of(root.path(item.name))
            groups.setdefault(key, Group(*key)).items.append(item)
    return list(groups.values()), now


def items(client: Any, root: Root, prefix: str) -> list[Item]:
    """The objects below a prefix, all pages."""
    fields = "items(name,generation,size,updated),nextPageToken"
    blobs = client.list_blobs(root.bucket, prefix=prefix, fields=fields, **calling())
    return [Item(blob.name, int(blob.generation), int(blob.size or 0), blob.updated) for blob in blobs]


def calling() -> dict[str, Any]:
    """Arguments of every call: storage's own retry. A deletion of one generation may be repeated."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    retry = DEFAULT_RETRY.with_timeout(clients.CALL_S).with_delay(initial=0.5, maximum=15.0, multiplier=2.0)
    return {"retry": retry, "timeout": clients.ATTEMPT_S}


def _time(client: Any, bucket: str) -> datetime:
    """By hand, since Google's client tells no header of an answer."""
    url = client._connection.build_api_url(path=f"/b/{bucket}/o", query_params={"maxResults": 1, "fields": "kind"})

    def ask() -> Any:
        from google.api_core.exceptions import from_http_response

        response = client._http.request("GET", url, timeout=clients.ATTEMPT_S)
        if response.status_code != 200:
            raise from_http_response(response)
        return response

    return parsedate_to_datetime(calling()["retry"](ask)().headers["Date"]).astimezone(UTC)
