"""The objects that runs left below runs/ of the bucket, in groups, and the groups that are still needed.

<bucket>/runs/<project number>/<run>/...   the outputs of a run's steps
<bucket>/runs/checkpoints/<step>-<hash>/   checkpoints, and lease.json while a run uses them
<bucket>/runs/capacity/<run>/...           the histories of a run's ladders, heartbeats and progress
<bucket>/runs/pins/<sha256>.json           the pinned inputs of a run

A group is needed, however old it is, if its address is in the parameters of an open run or a schedule, in
pipelines.toml, or in recent pins. A champion is such an address: the folder of a run's model.
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
from vgp.vertex.google_errors import explain_errors
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
    """The folder that `vgp clean` cleans: runs/ of the settings' bucket."""

    settings: Settings
    bucket: str
    #: The folder in the bucket, with a trailing slash.
    prefix: str

    @classmethod
    def of(cls, settings: Settings) -> "Root":
        bucket, folder = split_uri(clients.bucket(settings))
        return cls(settings, bucket, f"{folder}/runs/".lstrip("/"))

    @property
    def uri(self) -> str:
        return join_uri(self.bucket, self.prefix)

    def path(self, name: str) -> str:
        """Returns the name of an object relative to the root. Raises WorkFailed if the object is not below the root."""
        if not name.startswith(self.prefix):
            raise WorkFailed(f"gs://{self.bucket}/{name} is not below {self.uri}, so it was left unchanged.")
        return name.removeprefix(self.prefix)


@dataclass(frozen=True)
class Item:
    """A generation of an object in the bucket."""

    name: str
    generation: int
    bytes: int
    updated: datetime


@dataclass
class Group:
    """A group of objects that are kept or deleted together."""

    #: run, checkpoints, capacity or pins; other for objects that no run of this product wrote.
    kind: str
    #: Relative to the root.
    folder: str
    items: list[Item] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.items)

    @property
    def updated(self) -> datetime:
        """Returns the time of the last write to an object of the group."""
        return max(item.updated for item in self.items)

    @property
    def lease(self) -> Item | None:
        return next((item for item in self.items if item.name.endswith(f"/{LEASE}")), None)


def group_of(path: str) -> tuple[str, str]:
    """Returns the kind and folder of the group of an object."""
    for kind, pattern in _KINDS.items():
        if match := pattern.fullmatch(path):
            return kind, match["folder"]
    return "other", path.split("/", 1)[0]


def list_groups(root: Root) -> tuple[list[Group], datetime]:
    """Returns all groups and the time on the server's clock, because the clock of this machine may be wrong."""
    groups: dict[tuple[str, str], Group] = {}
    with explain_errors(f"list {root.uri}", root.settings):
        client = clients.storage(root.settings)
        now = _server_time(client, root.bucket)
        for item in list_items(client, root, root.prefix):
            key = group_of(root.path(item.name))
            groups.setdefault(key, Group(*key)).items.append(item)
    return list(groups.values()), now


def list_items(client: "StorageClient", root: Root, prefix: str) -> list[Item]:
    """Returns all objects below a prefix."""
    fields = "items(name,generation,size,updated),nextPageToken"
    blobs = client.list_blobs(root.bucket, prefix=prefix, fields=fields, **clients.storage_reading())
    return [Item(blob.name, int(blob.generation), int(blob.size or 0), blob.updated) for blob in blobs]


def _server_time(client: "StorageClient", bucket: str) -> datetime:
    """Returns the `Date` header of a response; Google's client does not expose headers."""
    url = client._connection.build_api_url(path=f"/b/{bucket}/o", query_params={"maxResults": 1, "fields": "kind"})

    def send() -> "Response":
        from google.api_core.exceptions import from_http_response

        response = client._http.request("GET", url, timeout=clients.ATTEMPT_S)
        if response.status_code != 200:
            raise from_http_response(response)
        return response

    return parsedate_to_datetime(clients.repeating_storage()(send)().headers["Date"]).astimezone(UTC)


class NeededGroups:
    """The groups that must be kept, each with the reason."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self._groups: dict[tuple[str, str], str] = {}
        #: Prefixes of folders: parents of groups, and globs up to their first wildcard.
        self._prefixes: dict[str, str] = {}

    def add(self, text: str, reason: str) -> None:
        """Adds the groups of all addresses below the root that the text contains."""
        start = f"{self.root.bucket}/{self.root.prefix}"
        for uri in _URI.findall(text):
            name = uri.removeprefix("gs://").removeprefix("/gcs/").rstrip(",;.)/")
            fixed = _WILDCARD.split(name, maxsplit=1)[0]
            if fixed.startswith(start):
                self._add(fixed.removeprefix(start), whole=fixed == name, reason=reason)
            elif fixed != name and start.startswith(fixed):
                self._prefixes.setdefault("", reason)

    def _add(self, path: str, *, whole: bool, reason: str) -> None:
        """Adds the group of an object or folder; if it is in no group, all groups whose folder begins with `path`.

        Args:
            whole: False if the path is the part of a glob before its first wildcard.
        """
        for inside in (path, f"{path}/x") if whole else (path,):
            kind, folder = group_of(inside)
            if kind != "other":
                self._groups.setdefault((kind, folder), reason)
                return
        self._prefixes.setdefault(path, reason)

    def reason(self, group: Group) -> str:
        """Returns the reason to keep the group, or an empty text."""
        if reason := self._groups.get((group.kind, group.folder)):
            return reason
        return next((reason for path, reason in self._prefixes.items() if f"{group.folder}/".startswith(path)), "")


def find_needed_groups(root: Root, pins: Iterable[Group]) -> tuple[NeededGroups, set[str]]:
    """Returns the groups that must be kept, and the ids of the open runs.

    Args:
        pins: Recent groups; the groups named in pins among them are needed.
    """
    settings, result = root.settings, NeededGroups(root)
    # The file also holds the other environments.
    for text in (settings.model_dump_json(), settings.file.read_text(encoding="utf-8") if settings.file else ""):
        result.add(text, "named in pipelines.toml")
    open_runs = set()
    for id_, text in _open_runs(settings):
        open_runs.add(id_)
        result.add(text, f"the open run {id_} needs it")
    with explain_errors("list the schedules", settings):
        for schedule in schedule_list.existing_schedules(settings):
            result.add(type(schedule).to_json(schedule), f"named by the schedule {schedule.display_name}")
    for text in _read_all(root, [group for group in pins if group.kind == "pins"]):
        result.add(text, "named by the pins of a run")
    return result, open_runs


def _open_runs(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yields the id and the PipelineJob, as JSON, of each run that has not ended."""
    states = [state for state in run_search.STATES if state not in ENDED]
    for run in run_search.list_runs(settings, run_search.Filter(states=states), limit=0):
        with explain_errors(f"look at the run {run.id}", settings):
            job = clients.pipeline_service(settings).get_pipeline_job(
                name=f"{resource_names.location(settings)}/pipelineJobs/{run.id}", **clients.reading()
            )
        yield run.id, json.dumps(type(job).to_dict(job), default=str)


def _read_all(root: Root, groups: list[Group]) -> list[str]:
    from google.api_core.exceptions import NotFound

    bucket = clients.storage(root.settings).bucket(root.bucket)

    def read(group: Group) -> str:
        try:
            data: bytes = bucket.blob(group.items[0].name).download_as_bytes(**clients.storage_reading())
        except NotFound:  # deleted meanwhile
            return ""
        return str(data.decode(errors="replace"))

    with explain_errors(f"read the pins in {root.uri}", root.settings), ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(read, groups))
