"""Deletes what a plan lets go: each object only if it is still the one that was looked at.

May be killed and repeated: what is left is found again. Checkpoints are deleted under their own lease, so that a run
that wants them meanwhile waits, and then starts anew.
"""

import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from vgp.vertex import clients
from vgp.vertex.cleaning.cleaning_plan import Plan
from vgp.vertex.cleaning.groups import LEASE, Group, Item, Root, calling, items
from vgp.vertex.cleaning.needed import WORKERS
from vgp.vertex.google_errors import explained

#: Objects between two looks at whether somebody pressed Ctrl-C.
_BATCH = 1000
#: How long a folder of checkpoints is held when this process is killed while it deletes.
_LEASE_S = 600.0


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


def _remove_checkpoints(root: Root, bucket: Any, group: Group, pool: ThreadPoolExecutor, removed: Removed) -> None:
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


def _hold(lease: Any, old: Item | None) -> bool:
    """Takes the lease of a folder that nobody holds, as vgp/train/checkpoint/holder.py writes one."""
    from google.api_core.exceptions import PreconditionFailed

    now = datetime.now(UTC).isoformat()
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": now, "renewed": now, "length_s": _LEASE_S,
              "token": os.urandom(8).hex()}  # fmt: skip
    try:
        lease.upload_from_string(json.dumps(holder), if_generation_match=old.generation if old else 0, **calling())
    except PreconditionFailed:
        return False
    return True


def _delete(root: Root, bucket: Any, batch: list[Item], pool: ThreadPoolExecutor, removed: Removed) -> None:
    for item in batch:
        root.path(item.name)
    for item, gone in zip(batch, pool.map(lambda item: _deleted(bucket, item), batch), strict=True):
        removed.objects += gone
        removed.bytes += item.bytes * gone
        removed.changed += not gone


def _deleted(bucket: Any, item: Item) -> bool:
    """Whether the object is gone; not so if it was written anew."""
    from google.api_core.exceptions import NotFound, PreconditionFailed

    try:
        bucket.blob(item.name).delete(if_generation_match=item.generation, **calling())
    except NotFound:
        pass
    except PreconditionFailed:
        return False
    return True
