"""Checks of the bucket of runs: it exists, belongs to the project, is near, and lets the runner write.

It must also keep files for as long as cached results point at them, and let a run replace and delete objects.

https://cloud.google.com/storage/docs/lifecycle#conditions, https://cloud.google.com/storage/docs/bucket-lock
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.text import google_names
from vgp.base.text.figures import format_duration, join_words
from vgp.check.check_finding import StepRow
from vgp.machines.catalog.catalog import regions
from vgp.protocol.moment import EPOCH_DAYS
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.preflight.access import OBJECTS, Policies, Policy, Resource, find_runner
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options, skip_question

if TYPE_CHECKING:
    from google.cloud.storage import Bucket

#: A cached result of the first day of an epoch may be used on its last day, by a run that then continues for days.
NEEDED_DAYS = 2 * EPOCH_DAYS
#: Conditions that no object of a run meets: it is the newest of its name and has no custom time.
_NEVER = ("daysSinceNoncurrentTime", "noncurrentTimeBefore", "daysSinceCustomTime", "customTimeBefore")

_EGRESS = "https://cloud.google.com/storage/pricing#network-buckets"
_INIT = "Write one into pipelines.toml: vgp init"


@dataclass(frozen=True)
class Lock:
    """A property of a bucket that keeps objects from being replaced, and its fix, with a field for the bucket's URI."""

    words: str
    fix: str


def find_lock(bucket: "Bucket") -> Lock | None:
    """Returns the bucket's retention policy or default hold, if it has one; `bucket` is that of Google's client."""
    if bucket.retention_period:
        policy = f"a retention policy of {format_duration(bucket.retention_period)}"
        if bucket.retention_policy_locked:
            return Lock(f"{policy}, locked for good", "Use another bucket: the policy of {uri} cannot be removed")
        return Lock(policy, "gcloud storage buckets update {uri} --clear-retention-period")
    if bucket.default_event_based_hold:
        return Lock("a hold for every new object", "gcloud storage buckets update {uri} --no-default-event-based-hold")
    return None


def list_early_deletions(bucket: "Bucket", folder: str, today: date | None = None) -> list[str]:
    """Describes every lifecycle rule of the bucket that deletes objects below `folder` before `NEEDED_DAYS`.

    `bucket` is that of Google's client. Rules that delete only replaced versions are left out.
    """
    rules = list(bucket.lifecycle_rules)
    classes = _list_classes(bucket, rules)
    deleting = [rule.get("condition", {}) for rule in rules if rule["action"]["type"] == "Delete"]
    day = today or datetime.now(UTC).date()
    return [_format_condition(c) for c in deleting if _applies_to_runs(c, folder, classes) and _is_early(c, day)]


def _applies_to_runs(condition: JsonObject, folder: str, classes: set[str] | None) -> bool:
    """Whether a rule may apply to the newest version of an object below the folder."""
    if condition.get("isLive") is False or condition.get("numNewerVersions") or not condition.keys().isdisjoint(_NEVER):
        return False
    named = condition.get("matchesStorageClass")
    if named and classes is not None and not classes & set(named):
        return False
    prefixes = condition.get("matchesPrefix")
    return not prefixes or any(prefix.startswith(folder) or folder.startswith(prefix) for prefix in prefixes)


def _is_early(condition: JsonObject, today: date) -> bool:
    """Whether an object that is younger than `NEEDED_DAYS` may meet the times of the rule."""
    before = condition.get("createdBefore")
    day = before if isinstance(before, date) else date.fromisoformat(before) if before else None
    old = day is not None and day <= today - timedelta(days=NEEDED_DAYS)
    return not old and int(condition.get("age") or 0) <= NEEDED_DAYS


def _list_classes(bucket: "Bucket", rules: Iterable[JsonObject]) -> set[str] | None:
    """Returns the storage classes that an object may get, or None for all (Autoclass)."""
    if bucket.autoclass_enabled:
        return None
    return {bucket.storage_class or "STANDARD", *_list_target_classes(rules)}


def _list_target_classes(rules: Iterable[JsonObject]) -> Iterator[str]:
    for rule in rules:
        if rule["action"]["type"] == "SetStorageClass":
            yield rule["action"]["storageClass"]


def _format_condition(condition: JsonObject) -> str:
    """Returns the condition as text: `age 7; matchesPrefix runs/`."""
    shown = {key: ", ".join(value) if isinstance(value, list) else value for key, value in condition.items()}
    return "; ".join(f"{key} {value}" for key, value in shown.items()) or "no condition"


def ask_state(settings: Settings, project: Project, steps: Sequence[StepRow] = ()) -> Question:
    """Returns the question about the bucket's existence, owner, location, access and retention, which is one call."""
    if not settings.bucket:
        return Question("bucket.exists", "bucket", lambda: [_report_unset()])
    return Question("bucket.exists", _uri(settings), lambda: _check_state(settings, project, steps))


def list_questions(
    settings: Settings, project: Project, policies: Policies, steps: Sequence[StepRow]
) -> Iterator[Question]:
    yield ask_state(settings, project, steps)
    if settings.bucket:
        email = find_runner(settings, project)
        yield Question(
            "bucket.writer", _uri(settings), lambda: check_writer(settings, project, policies, email, "bucket")
        )
        yield Question("registry.own", settings.registry_root, lambda: [_check_registry(settings)])
        if (registry_bucket := google_names.join_uri(google_names.split_uri(settings.registry_root)[0])) != _uri(
            settings
        ):
            registry_settings = settings.model_copy(update={"bucket": registry_bucket})
            yield Question(
                "registry.writer",
                registry_bucket,
                lambda: check_writer(registry_settings, project, policies, email, "registry"),
            )
    else:
        yield skip_question("bucket.writer", "bucket", "none is set")


def _report_unset() -> Finding:
    return Finding("bucket.exists", "bucket", "error", "none is set: runs have nowhere to write", _INIT)


def _check_state(settings: Settings, project: Project, steps: Sequence[StepRow]) -> Iterator[Finding]:
    from google.api_core import exceptions

    uri = _uri(settings)
    try:
        bucket = clients.storage(settings).get_bucket(_name(settings), **call_options())
    except exceptions.NotFound:
        yield Finding("bucket.exists", uri, "error", "is not there", _create_command(settings, project))
        return
    yield Finding("bucket.exists", uri, "ok", "is there")
    yield _check_owner(uri, bucket, project)
    yield _check_region(uri, bucket, settings)
    yield from _check_egress(uri, bucket, settings, steps)
    yield _check_access(uri, bucket)
    yield _check_retention(uri, bucket, settings)


def _create_command(settings: Settings, project: Project) -> str:
    return (
        f"gcloud storage buckets create {_uri(settings)} --project {project.id} --location {settings.region} "
        "--uniform-bucket-level-access --public-access-prevention"
    )


def _check_owner(uri: str, bucket: "Bucket", project: Project) -> Finding:
    """Checks that the bucket belongs to the project: a stranger may own its name, and would get the data."""
    owner = str(bucket.project_number or "")
    if not owner or not project.number:
        return Finding("bucket.owner", uri, "unknown", "the project's number could not be read, so not whose it is")
    if owner == project.number:
        return Finding("bucket.owner", uri, "ok", f"belongs to {project.id}")
    seen = f"belongs to another project (number {owner}, not {project.number})"
    hint = "Name a bucket of your own project, or change project: vgp config"
    return Finding("bucket.owner", uri, "error", seen, hint)


def _check_region(uri: str, bucket: "Bucket", settings: Settings) -> Finding:
    location = str(bucket.location or "").lower()
    if location == settings.region:
        return Finding("bucket.region", uri, "ok", f"is in {location}")
    hint = f"Take a bucket in {settings.region}: what crosses regions costs money and time"
    seen = f"is in {location} ({bucket.location_type}), the runs are in {settings.region}"
    if settings.region in _list_regions(bucket):
        return Finding("bucket.region", uri, "ok", seen)
    return Finding("bucket.region", uri, "error", seen, hint)


def _check_egress(uri: str, bucket: "Bucket", settings: Settings, steps: Sequence[StepRow]) -> Iterator[Finding]:
    """Warns of steps that may run in other regions: data that leaves the bucket's region is billed."""
    near = {settings.region, str(bucket.location or "").lower(), *_list_regions(bucket)}
    rows = [row for step in steps for row in step.every if row.region and row.region not in near]
    for region in sorted({row.region or "" for row in rows}):
        who = ", ".join(dict.fromkeys(row.step for row in rows if row.region == region))
        seen = f"{who} may run in {region}: what it reads there, data and checkpoints, leaves the bucket's region"
        hint = f"That is billed by the GB, and by where it goes: {_EGRESS}"
        yield Finding("bucket.egress", f"{uri} -> {region}", "warning", seen, hint)


def _list_regions(bucket: "Bucket") -> list[str]:
    """Returns the regions of a dual-region, or the regions that are near a multi-region.

    https://cloud.google.com/storage/docs/locations
    """
    near = {"us": "us-", "eu": "europe-", "asia": "asia-"}.get(str(bucket.location or "").lower())
    if near:
        return [region for region in regions() if region.startswith(near)]
    return [region.lower() for region in bucket.data_locations or ()]


def _check_registry(settings: Settings) -> Finding:
    """Warns if environments share a registry: their runs replace each other's champion."""
    root, others = settings.registry_root, settings.registry_sharers
    if not others:
        return Finding("registry.own", root, "ok", "is the registry of no other environment of the settings")
    seen = (
        f"is also the registry of {join_words(others, 'and')}: what a run of one promotes is the champion of the other"
    )
    return Finding("registry.own", root, "warning", seen, settings.registry_fix)


def _check_access(uri: str, bucket: "Bucket") -> Finding:
    rules = bucket.iam_configuration
    if not rules.uniform_bucket_level_access_enabled:
        hint = f"gcloud storage buckets update {uri} --uniform-bucket-level-access"
        return Finding("bucket.access", uri, "warning", "has access lists per object beside its policy", hint)
    if rules.public_access_prevention != "enforced":
        hint = f"gcloud storage buckets update {uri} --public-access-prevention"
        return Finding("bucket.access", uri, "warning", "could be made public by a policy", hint)
    return Finding("bucket.access", uri, "ok", "uniform, never public")


def _check_retention(uri: str, bucket: "Bucket", settings: Settings) -> Finding:
    """Checks that the bucket keeps the files of cached results, and that runs can replace other files."""
    if lock := find_lock(bucket):
        seen = (
            f"has {lock.words}: nothing there can be replaced or deleted, which the record of the registry, a ladder's "
            "heartbeat and old checkpoints are"
        )
        return Finding("bucket.retention", uri, "error", seen, lock.fix.format(uri=uri))
    folder = google_names.split_uri(f"{clients.bucket(settings)}/runs/")[1]
    rules = list_early_deletions(bucket, folder)
    if not rules:
        return Finding("bucket.retention", uri, "ok", f"keeps {folder} for more than {NEEDED_DAYS} days")
    seen = f"may delete {folder} within {NEEDED_DAYS} days ({' | '.join(rules)}): cached results would be lost"
    hint = (
        f"Write a rule with age {NEEDED_DAYS + 1} or more, or with another matchesPrefix, into a file: "
        f"gcloud storage buckets update {uri} --lifecycle-file FILE\n"
        f"the rules now: gcloud storage buckets describe {uri} --format 'json(lifecycle_config)'"
    )
    return Finding("bucket.retention", uri, "error", seen, hint)


def check_writer(
    settings: Settings, project: Project, policies: Policies, email: str | None, room: str
) -> Iterator[Finding]:
    """Checks that an account may write to the bucket; `room` is the first part of the check's name."""
    bucket = clients.storage(settings).bucket(_name(settings))
    own = Policy.from_storage(bucket.get_iam_policy(requested_policy_version=3, **call_options()))
    grant = f"gcloud storage buckets add-iam-policy-binding {_uri(settings)}"
    yield policies.check(email, OBJECTS, Resource(f"{room}.writer", _uri(settings), project.id, own, grant))


def _name(settings: Settings) -> str:
    return google_names.split_uri(clients.bucket(settings))[0]


def _uri(settings: Settings) -> str:
    return google_names.join_uri(_name(settings))
