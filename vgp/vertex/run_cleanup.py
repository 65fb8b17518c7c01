"""`vgp clean`: plans which groups of the bucket are deleted, with the reasons, and deletes them.

An object is deleted only if its generation is the one in the plan. The command may be killed and repeated.

Checkpoints are deleted while the command holds their lease, so a run that needs them waits, and then starts at step 0.
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
from vgp.vertex.google_errors import explain_errors
from vgp.vertex.leftovers import (
    LEASE,
    WORKERS,
    Group,
    Item,
    NeededGroups,
    Root,
    find_needed_groups,
    list_groups,
    list_items,
)

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket

#: The least age, in days: outputs are cache hits until their epoch ends, and the run with the hit then needs them.
LEAST_DAYS = 2 * EPOCH_DAYS
DEFAULT = "60d"
#: The longest length of a run's lease.
_MAX_LEASE = timedelta(hours=1)
_AGE = re.compile(r"(\d{1,5})\s*([dw])")

#: Objects deleted between two checks for Ctrl-C.
_BATCH = 1000
#: The length of this command's own lease, in seconds: a run waits this long if the command is killed.
_LEASE_S = 600.0


@dataclass(frozen=True)
class Decision:
    """A group with the decision to delete or keep it."""

    group: Group
    goes: bool
    why: str


@dataclass(frozen=True)
class Plan:
    """The decisions on all groups below `root`: first the groups to delete, by size."""

    root: Root
    now: datetime
    older_than: timedelta
    decisions: Sequence[Decision]

    @property
    def going(self) -> list[Group]:
        """Returns the groups to delete."""
        return [decision.group for decision in self.decisions if decision.goes]


def parse_age(text: str) -> timedelta:
    """Parses the value of `--older-than`.

    Raises:
        RequestError: the value is invalid, or less than `LEAST_DAYS`.
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


def make_plan(settings: Settings, older_than: timedelta, *, later: timedelta = timedelta()) -> Plan:
    """Lists the groups in the bucket and decides on each; changes nothing.

    Args:
        later: Added to the current time, for tests.

    Raises:
        RequestError: no bucket or project is set.
    """
    root = Root.of(settings)
    number = _project_number(settings)
    groups, now = list_groups(root)
    now += later
    young = [group for group in groups if now - group.updated < older_than]
    needed, open_runs = find_needed_groups(root, young)
    decisions = [_decide(group, number, now, older_than, needed, open_runs) for group in groups]
    decisions.sort(key=lambda decision: (not decision.goes, -decision.group.bytes, decision.group.folder))
    return Plan(root, now, older_than, decisions)


def _decide(
    group: Group, number: str, now: datetime, older_than: timedelta, needed: NeededGroups, open_runs: set[str]
) -> Decision:
    why = _reason_to_keep(group, number, now, older_than, needed, open_runs)
    return Decision(group, not why, why or f"nothing refers to it, and nothing was written for {older_than.days} days")


def _reason_to_keep(
    group: Group, number: str, now: datetime, older_than: timedelta, needed: NeededGroups, open_runs: set[str]
) -> str:
    if group.kind == "other":
        return "not written by a run of this product"
    project, _, run = group.folder.partition("/")
    if group.kind == "run" and project != number:
        return f"of another project, number {project}"
    if group.kind in ("run", "capacity") and run in open_runs:
        return "the run is open"
    if reason := needed.reason(group):
        return reason
    if group.lease and now - group.lease.updated < _MAX_LEASE:
        return "a run holds its lease"
    if now - group.updated < older_than:
        return f"younger than {older_than.days} days"
    return ""


def _project_number(settings: Settings) -> str:
    with explain_errors(f"look for the number of the project {clients.project(settings)}", settings):
        client = clients.projects(settings)
        name = client.get_project(name=f"projects/{settings.project}", **clients.reading()).name
    return str(name).rsplit("/", 1)[-1]


@dataclass
class Removed:
    """The number and size of deleted objects."""

    objects: int = 0
    bytes: int = 0
    #: Objects that were overwritten, and checkpoint folders that a run leased or wrote, after the plan: all kept.
    changed: int = 0


def remove(plan: Plan, report: Callable[[Removed], None] = lambda removed: None) -> Removed:
    """Deletes the plan's groups to delete, and returns the counts.

    Args:
        report: Receives the counts so far, after each folder of checkpoints and each batch of objects.

    Raises:
        WorkFailed: Google refused or could not be reached; objects deleted before stay deleted.
    """
    removed, root = Removed(), plan.root
    with explain_errors(f"delete from {root.uri}", root.settings), ThreadPoolExecutor(WORKERS) as pool:
        bucket = clients.storage(root.settings).bucket(root.bucket)
        for group in (group for group in plan.going if group.kind == "checkpoints"):
            _remove_checkpoints(root, bucket, group, pool, removed)
            report(removed)
        rest = (item for group in plan.going if group.kind != "checkpoints" for item in group.items)
        for batch in _split_batches(rest):
            _delete_batch(root, bucket, batch, pool, removed)
            report(removed)
    return removed


def _remove_checkpoints(root: Root, bucket: "Bucket", group: Group, pool: ThreadPoolExecutor, removed: Removed) -> None:
    """Deletes a folder of checkpoints, unless a run holds its lease or has written to it after the plan.

    Manifests are deleted before parts, so that a kill leaves no checkpoint that looks complete.
    """
    lease = bucket.blob(f"{root.prefix}{group.folder}/{LEASE}")
    root.path(lease.name)
    if not _take_lease(lease, group.lease):
        removed.changed += 1
        return
    planned = {(item.name, item.generation) for item in group.items}
    prefix = f"{root.prefix}{group.folder}/"
    items = [item for item in list_items(bucket.client, root, prefix) if item.name != lease.name]
    if {(item.name, item.generation) for item in items} <= planned:
        for batch in _split_batches(sorted(items, key=lambda item: (not item.name.endswith(".json"), item.name))):
            _delete_batch(root, bucket, batch, pool, removed)
    else:
        removed.changed += 1
    _delete(bucket, Item(lease.name, int(lease.generation), 0, datetime.now(UTC)))


def _split_batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while batch := list(islice(rest, _BATCH)):
        yield batch


def _take_lease(lease: "Blob", old: Item | None) -> bool:
    """Writes a lease in the format of vgp/train/checkpoint/lease_holder.py; returns False if another writer came first.

    Args:
        old: The expired lease of the folder, if there is one.
    """
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


def _delete_batch(root: Root, bucket: "Bucket", batch: list[Item], pool: ThreadPoolExecutor, removed: Removed) -> None:
    for item in batch:
        root.path(item.name)  # raises if the object is not below the root
    for item, is_gone in zip(batch, pool.map(lambda item: _delete(bucket, item), batch), strict=True):
        removed.objects += is_gone
        removed.bytes += item.bytes * is_gone
        removed.changed += not is_gone


def _delete(bucket: "Bucket", item: Item) -> bool:
    """Deletes an object; returns whether it is gone, which is False if it was overwritten."""
    from google.api_core.exceptions import NotFound, PreconditionFailed

    try:
        bucket.blob(item.name).delete(if_generation_match=item.generation, **clients.storage_reading())
    except NotFound:
        pass
    except PreconditionFailed:
        return False
    return True
