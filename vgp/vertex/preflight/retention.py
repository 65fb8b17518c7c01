"""Whether the bucket keeps what a cached result may point at for long enough, and lets the rest be replaced.

https://cloud.google.com/storage/docs/lifecycle#conditions, https://cloud.google.com/storage/docs/bucket-lock
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from vgp.base.text.figures import took
from vgp.protocol.epoch import EPOCH_DAYS

#: A result of the epoch's first day is taken on its last, by a run that goes on for a while.
NEEDED_DAYS = 2 * EPOCH_DAYS
#: Conditions that no object holds as we write it: it is the newest of its name, and has no time of its own.
_NEVER = ("daysSinceNoncurrentTime", "noncurrentTimeBefore", "daysSinceCustomTime", "customTimeBefore")


@dataclass(frozen=True)
class Lock:
    """What keeps new objects from being replaced, and what to do, with a place for the bucket's URI."""

    words: str
    fix: str


def locks(bucket: Any) -> Lock | None:
    """A retention policy, or a hold that every new object gets; `bucket` is as Google's client has it."""
    if bucket.retention_period:
        policy = f"a retention policy of {took(bucket.retention_period)}"
        if bucket.retention_policy_locked:
            return Lock(f"{policy}, locked for good", "Name another bucket: nobody can lift that of {uri}")
        return Lock(policy, "gcloud storage buckets update {uri} --clear-retention-period")
    if bucket.default_event_based_hold:
        return Lock("a hold for every new object", "gcloud storage buckets update {uri} --no-default-event-based-hold")
    return None


def too_soon(bucket: Any, folder: str, today: date | None = None) -> list[str]:
    """In words, every rule of the bucket that deletes below `folder` before `NEEDED_DAYS` are over.

    `bucket` is as Google's client has it. Deleting what another object replaced harms nobody.
    """
    rules = list(bucket.lifecycle_rules)
    classes = _classes(bucket, rules)
    deleting = [rule.get("condition", {}) for rule in rules if rule["action"]["type"] == "Delete"]
    day = today or datetime.now(UTC).date()
    return [_words(c) for c in deleting if _of_ours(c, folder, classes) and _soon(c, day)]


def _of_ours(condition: Mapping[str, Any], folder: str, classes: set[str] | None) -> bool:
    """Whether a rule may be about an object below the folder that nothing has replaced yet."""
    if condition.get("isLive") is False or condition.get("numNewerVersions") or not condition.keys().isdisjoint(_NEVER):
        return False
    named = condition.get("matchesStorageClass")
    if named and classes is not None and not classes & set(named):
        return False
    prefixes = condition.get("matchesPrefix")
    return not prefixes or any(prefix.startswith(folder) or folder.startswith(prefix) for prefix in prefixes)


def _soon(condition: Mapping[str, Any], today: date) -> bool:
    """Whether an object that is younger than it has to become may meet the times of the rule."""
    before = condition.get("createdBefore")
    day = before if isinstance(before, date) else date.fromisoformat(before) if before else None
    old = day is not None and day <= today - timedelta(days=NEEDED_DAYS)
    return not old and int(condition.get("age") or 0) <= NEEDED_DAYS


def _classes(bucket: Any, rules: Iterable[Mapping[str, Any]]) -> set[str] | None:
    """The storage classes that an object may get; None: all, as Autoclass likes."""
    if bucket.autoclass_enabled:
        return None
    return {bucket.storage_class or "STANDARD", *_moved(rules)}


def _moved(rules: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for rule in rules:
        if rule["action"]["type"] == "SetStorageClass":
            yield rule["action"]["storageClass"]


def _words(condition: Mapping[str, Any]) -> str:
    """`age 7, matchesPrefix runs/`"""
    shown = {key: ", ".join(value) if isinstance(value, list) else value for key, value in condition.items()}
    return "; ".join(f"{key} {value}" for key, value in shown.items()) or "no condition"
