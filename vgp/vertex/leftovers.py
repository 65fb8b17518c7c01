"""The objects that runs left below runs/ of the bucket, in groups, and the groups that are still needed.

<bucket>/runs/<project number>/<run>/...   what the steps of a run wrote
<bucket>/runs/checkpoints/<step>-<hash>/   checkpoints, and lease.json while a run holds them
<bucket>/runs/capacity/<run>/...           the ways up its ladders, heartbeats and progress
<bucket>/runs/pins/<sha256>.json           what a run worked on

However old, a group stays that a champion, an open run, a schedule or pins of today name. A champion is named as a
folder: in the parameters of a run or a schedule, in pipelines.toml, or in pins. All that these name below runs/ stays,
with the run that it is of.
"""

import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from vgp.base.errors import WorkFailed
from vgp.base.text.google_names import join_uri, split_uri
from vgp.protocol import file_names
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explained
from vgp.vertex.runs import run_search
from vgp.vertex.runs.remote_run import ENDED
from vgp.vertex.schedules import schedule_list

if TYPE_CHECKING:
    from google.cloud.storage import Client as StorageClient
    from requests import Response

LEASE = file_names.LEASE
_KINDS = {
    "run": re.compile(r"(?P<folder>\d+/[^/]+)/.*", re.DOTALL),
    "checkpoints": re.compile(r"(?P<folder>checkpoints/[^/]+)/.*", re.DOTALL),
    "capacity": re.compile(r"(?P<folder>capacity/[^/]+)/.*", re.DOTALL),
    "pins": re.compile(r"(?P<folder>pins/[0-9a-f]{64}\.json)"),
}

WORKERS = 16
_URI = re.compile(r"(?:gs://|/gcs/)[^\s\"'\\<>]+")
_WILDCARD = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class Root:
    """The folder that is cleaned: runs/ of the settings' bucket, and nothing beside it."""

    settings: Settings
    bucket: str
    #: With a slash at its end.
    prefix: str

    @classmethod
    def of(cls, settings: Settings) -> "Root":
        bucket, folder = split_uri(clients.bucket(settings))
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


def items(client: "StorageClient", root: Root, prefix: str) -> list[Item]:
    """The objects below a prefix, all pages."""
    fields = "items(name,generation,size,updated),nextPageToken"
    blobs = client.list_blobs(root.bucket, prefix=prefix, fields=fields, **clients.storage_reading())
    return [Item(blob.name, int(blob.generation), int(blob.size or 0), blob.updated) for blob in blobs]


def _time(client: "StorageClient", bucket: str) -> datetime:
    """Sends the request over HTTP, because Google's client does not expose response headers."""
    url = client._connection.build_api_url(path=f"/b/{bucket}/o", query_params={"maxResults": 1, "fields": "kind"})

    def ask() -> "Response":
        from google.api_core.exceptions import from_http_response

        response = client._http.request("GET", url, timeout=clients.ATTEMPT_S)
        if response.status_code != 200:
            raise from_http_response(response)
        return response

    return parsedate_to_datetime(clients.repeating_storage()(ask)().headers["Date"]).astimezone(UTC)


class Needed:
    """Groups with the reason why they stay."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._groups: dict[tuple[str, str], str] = {}
        #: Folders above groups, and the beginnings of globs.
        self._above: dict[str, str] = {}

    def add(self, text: str, reason: str) -> None:
        """Takes in every address below the root that the text holds."""
        start = f"{self.root.bucket}/{self.root.prefix}"
        for uri in _URI.findall(text):
            name = uri.removeprefix("gs://").removeprefix("/gcs/").rstrip(",;.)/")
            fixed = _WILDCARD.split(name, maxsplit=1)[0]
            if fixed.startswith(start):
                self._add(fixed.removeprefix(start), whole=fixed == name, reason=reason)
            elif fixed != name and start.startswith(fixed):
                self._above.setdefault("", reason)

    def _add(self, path: str, *, whole: bool, reason: str) -> None:
        """Takes in a path, or the beginning of one: the object's or folder's group, else all groups that begin so."""
        for inside in (path, f"{path}/x") if whole else (path,):
            kind, folder = group_of(inside)
            if kind != "other":
                self._groups.setdefault((kind, folder), reason)
                return
        self._above.setdefault(path, reason)

    def reason(self, group: Group) -> str:
        """Why the group stays; empty if nothing names it."""
        if found := self._groups.get((group.kind, group.folder)):
            return found
        return next((reason for path, reason in self._above.items() if f"{group.folder}/".startswith(path)), "")


def needed(root: Root, pins: Iterable[Group]) -> tuple[Needed, set[str]]:
    """What must stay, and the ids of the open runs.

    Args:
        pins: Those that stay.
    """
    settings, result = root.settings, Needed(root)
    for text in (settings.model_dump_json(), settings.file.read_text(encoding="utf-8") if settings.file else ""):
        result.add(text, "named in pipelines.toml")  # the file also for its other environments
    open_runs = set()
    for id_, text in _open_runs(settings):
        open_runs.add(id_)
        result.add(text, f"the run {id_} needs it, which is open")
    with explained("list the schedules", settings):
        for schedule in schedule_list.existing_schedules(settings):
            result.add(type(schedule).to_json(schedule), f"named by the schedule {schedule.display_name}")
    for text in _contents(root, [group for group in pins if group.kind == "pins"]):
        result.add(text, "named by the pins of a run")
    return result, open_runs


def _open_runs(settings: Settings) -> Iterator[tuple[str, str]]:
    """Ids of the runs that are not over, and all that they say of themselves."""
    states = [state for state in run_search.STATES if state not in ENDED]
    for run in run_search.listed(settings, run_search.Filter(states=states), limit=0):
        with explained(f"look at the run {run.id}", settings):
            job = clients.pipeline_service(settings).get_pipeline_job(
                name=f"{resource_names.location(settings)}/pipelineJobs/{run.id}", **clients.reading()
            )
        yield run.id, json.dumps(type(job).to_dict(job), default=str)


def _contents(root: Root, groups: list[Group]) -> list[str]:
    from google.api_core.exceptions import NotFound

    bucket = clients.storage(root.settings).bucket(root.bucket)

    def read(group: Group) -> str:
        try:
            data: bytes = bucket.blob(group.items[0].name).download_as_bytes(**clients.storage_reading())
        except NotFound:  # deleted meanwhile
            return ""
        return str(data.decode(errors="replace"))

    with explained(f"read the pins in {root.uri}", root.settings), ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(read, groups))
