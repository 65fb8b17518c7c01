"""`vgp clean`: each group of the bucket with why it stays or goes, and the deletion of those that go.

An object is deleted only if it is still the one that was looked at. The command may be killed and repeated: what is
left is found again. Checkpoints are deleted under their own lease, so that a run that wants them meanwhile waits, and
then starts anew.
"""

import json
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from vgp.base.errors import RequestError
from vgp.protocol.moment import EPOCH_DAYS
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explained
from vgp.vertex.leftovers import LEASE, WORKERS, Group, Item, Needed, Root, items, listed, needed

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket

#: A result is taken from the cache until its epoch ends, and the run that took it goes on for a while.
LEAST_DAYS = 2 * EPOCH_DAYS
DEFAULT = "60d"
#: The longest that a lease lasts.
_LEASE = timedelta(hours=1)
_AGE = re.compile(r"(\d{1,5})\s*([dw])")

#: Objects deleted between two checks for Ctrl-C.
_BATCH = 1000
#: How long a folder of checkpoints is held when this process is killed while it deletes.
_LEASE_S = 600.0


@dataclass(frozen=True)
class Decision:
    """What becomes of a group, and why."""

    group: Group
    goes: bool
    why: str


@dataclass(frozen=True)
class Plan:
    """What becomes of everything below `root`, the largest first."""

    root: Root
    now: datetime
    older_than: timedelta
    decisions: Sequence[Decision]

    @property
    def going(self) -> list[Group]:
        return [decision.group for decision in self.decisions if decision.goes]


def age(text: str) -> timedelta:
    """The age of `--older-than`.

    Raises:
        RequestError: it is none, or less than the cache needs.
    """
    match = _AGE.fullmatch(text.strip())
    if not match:
        raise RequestError(f"--older-than {text}: write days or weeks, such as {DEFAULT} or 10w.")
    days = int(match[1]) * (7 if match[2] == "w" else 1)
    if days < LEAST_DAYS:
        raise RequestError(
            f"--older-than {text}: at least {LEAST_DAYS}d. Newer outputs may still be cache hits: "
            f"two epochs of {EPOCH_DAYS} days."
        )
    return timedelta(days=days)


def plan(settings: Settings, older_than: timedelta, *, later: timedelta = timedelta()) -> Plan:
    """Looks at the bucket; changes nothing.

    Args:
        later: For how much later than now the plan is; for tests.

    Raises:
        RequestError: no bucket or project is set.
    """
    root = Root.of(settings)
    number = _project_number(settings)
    groups, now = listed(root)
    now += later
    young = [group for group in groups if now - group.updated < older_than]
    names, open_runs = needed(root, young)
    decisions = [_decided(group, number, now, older_than, names, open_runs) for group in groups]
    decisions.sort(key=lambda decision: (not decision.goes, -decision.group.bytes, decision.group.folder))
    return Plan(root, now, older_than, decisions)


def _decided(
    group: Group, number: str, now: datetime, older_than: timedelta, names: Needed, open_runs: set[str]
) -> Decision:
    why = _why_it_stays(group, number, now, older_than, names, open_runs)
    return Decision(group, not why, why or f"nothing refers to it, and nothing was written for {older_than.days} days")


def _why_it_stays(
    group: Group, number: str, now: datetime, older_than: timedelta, names: Needed, open_runs: set[str]
) -> str:
    if group.kind == "other":
        return "nothing that a run of ours left"
    project, _, run = group.folder.partition("/")
    if group.kind == "run" and project != number:
        return f"of another project, number {project}"
    if group.kind in ("run", "capacity") and run in open_runs:
        return "the run is open"
    if reason := names.reason(group):
        return reason
    if group.lease and now - group.lease.updated < _LEASE:
        return "a run holds its lease"
    if now - group.updated < older_than:
        return f"younger than {older_than.days} days"
    return ""


def _project_number(settings: Settings) -> str:
    with explained(f"look for the number of the project {clients.project(settings)}", settings):
        client = clients.projects(settings)
        name = client.get_project(name=f"projects/{settings.project}", **clients.reading()).name
    return str(name).rsplit("/", 1)[-1]


@dataclass
class Removed:
    objects: int = 0
    bytes: int = 0
    #: Objects that were written anew meanwhile, and folders that a run took: they stay.
    changed: int = 0


def remove(plan: Plan, tell: Callable[[Removed], None] = lambda removed: None) -> Removed:
    """Deletes the groups that go.

    Raises:
        WorkFailed: Google refused or could not be reached; what was deleted until then is gone.
    """
    removed, root = Removed(), plan.root
    with explained(f"delete from {root.uri}", root.settings), ThreadPoolExecutor(WORKERS) as pool:
        bucket = clients.storage(root.settings).bucket(root.bucket)
        for group in (group for group in plan.going if group.kind == "checkpoints"):
            _remove_checkpoints(root, bucket, group, pool, removed)
            tell(removed)
        rest = (item for group in plan.going if group.kind != "checkpoints" for item in group.items)
        for batch in _batches(rest):
            _delete(root, bucket, batch, pool, removed)
            tell(removed)
    return removed


def _remove_checkpoints(root: Root, bucket: "Bucket", group: Group, pool: ThreadPoolExecutor, removed: Removed) -> None:
    """Manifests before parts, so that what a kill leaves is no checkpoint; and only what the plan has seen."""
    lease = bucket.blob(f"{root.prefix}{group.folder}/{LEASE}")
    root.path(lease.name)
    if not _hold(lease, group.lease):
        removed.changed += 1
        return
    seen = {(item.name, item.generation) for item in group.items}
    now = [item for item in items(bucket.client, root, f"{root.prefix}{group.folder}/") if item.name != lease.name]
    if {(item.name, item.generation) for item in now} <= seen:
        for batch in _batches(sorted(now, key=lambda item: (not item.name.endswith(".json"), item.name))):
            _delete(root, bucket, batch, pool, removed)
    else:
        removed.changed += 1
    _deleted(bucket, Item(lease.name, int(lease.generation), 0, datetime.now(UTC)))


def _batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _hold(lease: "Blob", old: Item | None) -> bool:
    """Takes the lease of a folder that has no holder, as vgp/train/checkpoint/lease_holder.py writes one."""
    from google.api_core.exceptions import PreconditionFailed

    now = datetime.now(UTC).isoformat()
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": now, "renewed": now, "length_s": _LEASE_S,
              "token": os.urandom(8).hex()}  # fmt: skip
    try:
        lease.upload_from_string(
            json.dumps(holder),
            if_generation_match=old.generation if old else 0,
            **clients.storage_reading(),
        )
    except PreconditionFailed:
        return False
    return True


def _delete(root: Root, bucket: "Bucket", batch: list[Item], pool: ThreadPoolExecutor, removed: Removed) -> None:
    for item in batch:
        root.path(item.name)
    for item, gone in zip(batch, pool.map(lambda item: _deleted(bucket, item), batch), strict=True):
        removed.objects += gone
        removed.bytes += item.bytes * gone
        removed.changed += not gone


def _deleted(bucket: "Bucket", item: Item) -> bool:
    """Whether the object is gone; not so if it was written anew."""
    from google.api_core.exceptions import NotFound, PreconditionFailed

    try:
        bucket.blob(item.name).delete(if_generation_match=item.generation, **clients.storage_reading())
    except NotFound:
        pass
    except PreconditionFailed:
        return False
    return True
