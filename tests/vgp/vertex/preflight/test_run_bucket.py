"""The bucket: there, ours, near, ruled by one policy, and open to the runner. A bucket that deletes what a cached
result points at is refused, and one that lets nothing be replaced."""

from dataclasses import replace
from datetime import date
from types import SimpleNamespace

import pytest

from vgp.check.check_finding import RungRow
from vgp.vertex.preflight import check_basics
from vgp.vertex.preflight.run_bucket import list_early_deletions

from .conftest import RUNNER

RUNS = ["runs/"]
#: Days that are ahead, and long over, whenever this runs.
AHEAD, OVER = "9999-01-01", "2020-01-01"


def found(world, *rules, **bucket):
    """The level and the words of bucket.retention where the bucket has these rules, of which a mapping deletes."""
    listed = [rule if "action" in rule else {"action": {"type": "Delete"}, "condition": rule} for rule in rules]
    world.cloud.storage.buckets["test-bucket"].update({"lifecycle": {"rule": listed}, **bucket})
    (finding,) = [one for one in check_basics(world.settings()) if one.check == "bucket.retention"]
    return finding


@pytest.mark.parametrize(
    "rule",
    [
        {"age": 28},
        {"age": 0},
        {"age": 7, "matchesPrefix": RUNS},
        {"age": 7, "matchesPrefix": ["tmp/", "ru"]},
        {"age": 7, "matchesPrefix": ["runs/123456789012/training-1/"]},
        {"age": 7, "isLive": True},
        {"age": 7, "matchesSuffix": [".parquet"]},
        {"age": 7, "matchesStorageClass": ["STANDARD"]},
        {"createdBefore": AHEAD},
        {"age": 7, "createdBefore": AHEAD},
        {"age": 7, "numNewerVersions": 0},
    ],
)
def test_a_rule_that_may_delete_a_run_too_soon_is_an_error(world, rule):
    finding = found(world, {"age": 400}, rule)
    assert finding.level == "error" and finding.seen.startswith("may delete runs/ within 28 days (")
    assert "--lifecycle-file FILE" in finding.hint


@pytest.mark.parametrize(
    "rule",
    [
        {"age": 29},
        {"age": 29, "matchesPrefix": RUNS},
        {"age": 1, "matchesPrefix": ["builds/"]},
        {"age": 1, "matchesPrefix": ["runs-of-others/"]},
        {"age": 1, "isLive": False},
        {"daysSinceNoncurrentTime": 0},
        {"noncurrentTimeBefore": AHEAD},
        {"age": 1, "numNewerVersions": 3},
        {"age": 1, "daysSinceCustomTime": 2},
        {"createdBefore": OVER},
        {"age": 60, "createdBefore": AHEAD},
        {"age": 1, "matchesStorageClass": ["NEARLINE"]},
        {"action": {"type": "SetStorageClass", "storageClass": "NEARLINE"}, "condition": {"age": 1}},
        {"action": {"type": "AbortIncompleteMultipartUpload"}, "condition": {"age": 1}},
    ],
)
def test_a_rule_about_anything_else_is_none_of_ours(world, rule):
    assert found(world, rule).level == "ok"


def test_a_day_counts_until_the_objects_before_it_are_28_days_old():
    def rules(before: str) -> list[str]:
        rule = {"action": {"type": "Delete"}, "condition": {"createdBefore": before}}
        bucket = SimpleNamespace(lifecycle_rules=[rule], autoclass_enabled=False, storage_class="STANDARD")
        return list_early_deletions(bucket, "runs/", date(2026, 3, 1))

    assert rules("2026-02-02") and not rules("2026-02-01")


def test_a_class_that_objects_are_moved_to_counts(world):
    moves = {"action": {"type": "SetStorageClass", "storageClass": "NEARLINE"}, "condition": {"age": 3}}
    assert found(world, moves, {"age": 7, "matchesStorageClass": ["NEARLINE"]}).level == "error"
    assert found(world, {"age": 7, "matchesStorageClass": ["NEARLINE"]}, autoclass={"enabled": True}).level == "error"


def test_runs_below_a_folder_are_what_counts(world, monkeypatch):
    monkeypatch.setenv("PIPELINES_BUCKET", "gs://test-bucket/team")
    assert found(world, {"age": 1, "matchesPrefix": RUNS}).level == "ok"
    assert found(world, {"age": 1, "matchesPrefix": ["team/"]}).level == "error"


@pytest.mark.parametrize(
    ("kept", "words", "fix"),
    [
        (
            {"retentionPolicy": {"retentionPeriod": "604800"}},
            "a retention policy of 7d 00h:",
            "--clear-retention-period",
        ),
        ({"retentionPolicy": {"retentionPeriod": "60", "isLocked": True}}, "locked for good", "Use another bucket"),
        ({"defaultEventBasedHold": True}, "a hold for every new object", "--no-default-event-based-hold"),
    ],
)
def test_a_bucket_in_which_nothing_can_be_replaced_is_an_error(world, kept, words, fix):
    finding = found(world, **kept)
    assert finding.level == "error" and words in finding.seen and "heartbeat" in finding.seen and fix in finding.hint


def test_what_is_deleted_softly_is_replaced_like_anything_else(world):
    assert found(world, softDeletePolicy={"retentionDurationSeconds": "604800"}).level == "ok"


NEEDED = ["storage.objects.create", "storage.objects.delete", "storage.objects.get", "storage.objects.list"]


def test_a_bucket_that_is_not_there_comes_with_the_command_that_makes_it(world, monkeypatch):
    monkeypatch.setenv("PIPELINES_BUCKET", "gs://other-bucket/folder")
    world.cloud.storage.bindings["other-bucket"] = world.cloud.storage.bindings["test-bucket"]
    found = world.only("bucket.exists", "error")
    assert found.subject == "gs://other-bucket"
    assert found.hint == (
        "gcloud storage buckets create gs://other-bucket --project test-project --location us-central1 "
        "--uniform-bucket-level-access --public-access-prevention"
    )


def test_no_bucket_is_an_error(world, monkeypatch):
    monkeypatch.delenv("PIPELINES_BUCKET")
    assert "vgp init" in world.only("bucket.exists", "error").hint


def test_environments_that_share_a_registry_are_a_warning(world, monkeypatch, tmp_path):
    file = tmp_path / "pipelines.toml"
    file.write_text("[environments.dev]\n[environments.prod]\n")
    (tmp_path / "pipelines").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPELINES_ENV", "prod")
    found = world.only("registry.own", "warning")
    assert found.subject == "gs://test-bucket/registry" and "also the registry of dev: what a run of one" in found.seen
    assert found.hint.endswith('into [environments.dev]: registry = "gs://test-bucket/registry-dev".')
    file.write_text('[environments.dev]\nregistry = "gs://test-bucket/registry-dev"\n[environments.prod]\n')
    assert world.found() == []


def test_a_runner_that_may_not_write_into_the_bucket_of_the_registry_is_an_error(world, monkeypatch):
    monkeypatch.setenv("PIPELINES_REGISTRY", "gs://other-bucket/models")
    world.cloud.storage.bindings["other-bucket"] = {}
    assert world.only("registry.writer", "error").subject == "gs://other-bucket"
    world.cloud.storage.bindings["other-bucket"] = world.cloud.storage.bindings["test-bucket"]
    assert world.found() == []


def test_a_bucket_of_a_stranger_is_an_error(world):
    world.cloud.storage.buckets["test-bucket"]["projectNumber"] = "666"
    assert world.only("bucket.owner", "error").seen == "belongs to another project (number 666, not 123456789012)"


@pytest.mark.parametrize(
    ("location", "kind", "regions", "fine"),
    [
        ("EUROPE-WEST4", "region", [], False),
        ("US", "multi-region", [], True),
        ("EU", "multi-region", [], False),
        ("NAM4", "dual-region", ["US-CENTRAL1", "US-EAST1"], True),
        ("EUR4", "dual-region", ["EUROPE-NORTH1", "EUROPE-WEST4"], False),
    ],
)
def test_a_bucket_has_to_be_where_the_runs_are(world, location, kind, regions, fine):
    placed = {"location": location, "locationType": kind, "customPlacementConfig": {"dataLocations": regions}}
    world.cloud.storage.buckets["test-bucket"].update(placed)
    if fine:
        assert world.found() == []
    else:
        assert location.lower() in world.only("bucket.region", "error").seen


@pytest.mark.parametrize(
    ("rules", "flag"),
    [
        ({"uniformBucketLevelAccess": {"enabled": False}}, "--uniform-bucket-level-access"),
        ({"publicAccessPrevention": "inherited"}, "--public-access-prevention"),
    ],
)
def test_a_bucket_that_could_be_opened_by_mistake_is_a_warning(world, rules, flag):
    world.cloud.storage.buckets["test-bucket"]["iamConfiguration"].update(rules)
    assert world.only("bucket.access", "warning").hint == f"gcloud storage buckets update gs://test-bucket {flag}"


def test_a_runner_that_may_not_write_is_an_error(world):
    world.cloud.storage.bindings["test-bucket"] = {}
    found = world.only("bucket.writer", "error")
    assert found.seen == f"does not grant {RUNNER} {', '.join(NEEDED)}"
    assert found.hint == (
        "gcloud storage buckets add-iam-policy-binding gs://test-bucket "
        f"--member serviceAccount:{RUNNER} --role roles/storage.objectUser"
    )


@pytest.mark.parametrize(
    ("roles", "lacks"),
    [
        (["roles/storage.objectAdmin"], []),
        (["roles/storage.objectCreator", "roles/storage.objectViewer"], ["storage.objects.delete"]),
        (["roles/storage.objectViewer"], ["storage.objects.create", "storage.objects.delete"]),
        (["roles/storage.legacyBucketOwner"], ["storage.objects.get"]),
        (["roles/storage.legacyBucketOwner", "roles/storage.legacyObjectReader"], []),
    ],
)
def test_roles_on_the_bucket_are_added_up(world, roles, lacks):
    world.cloud.storage.bindings["test-bucket"] = {role: [f"serviceAccount:{RUNNER}"] for role in roles}
    if lacks:
        assert world.only("bucket.writer", "error").seen == f"does not grant {RUNNER} {', '.join(lacks)}"
    else:
        assert world.found() == []


def test_a_role_on_the_project_is_as_good(world):
    world.cloud.storage.bindings["test-bucket"] = {}
    world.grant("projects/test-project", "roles/storage.objectAdmin", f"serviceAccount:{RUNNER}")
    assert world.found() == []


def test_what_a_group_may_be_granted_is_unknown(world):
    world.cloud.storage.bindings["test-bucket"] = {"roles/storage.objectUser": ["group:runners@example.com"]}
    found = world.only("bucket.writer", "unknown")
    assert "unless through roles/storage.objectUser of group:runners@example.com" in found.seen


def test_without_the_permission_to_read_the_policy_it_is_unknown_who_writes(world):
    world.forbid("storage.buckets.getIamPolicy", "storage.buckets.getIamPolicy")
    assert "roles/iam.securityReviewer" in world.only("bucket.writer", "unknown").hint


def test_a_bucket_that_may_not_be_seen_is_unknown_and_the_rest_is_still_told(world):
    world.forbid("storage.buckets.get", "storage.buckets.get")
    world.cloud.billing.enabled = False
    assert {each.check: each.level for each in world.found()} == {
        "bucket.exists": "unknown", "account.billing": "error",
    }  # fmt: skip


def test_what_leaves_the_buckets_region_for_a_rung_is_named(world):
    away = [replace(world.steps[0], region=region) for region in ("us-east4", "us-central1")]
    rungs = tuple(RungRow(str(number), (each,), 3600) for number, each in enumerate(away, 1))
    world.steps = [replace(world.steps[0], rungs=rungs), *world.steps[1:]]
    found = [each for each in world.found() if each.check == "bucket.egress"]
    assert [(each.subject, each.level) for each in found] == [("gs://test-bucket -> us-east4", "warning")]
    assert "pricing#network-buckets" in found[0].hint and world.steps[0].step in found[0].seen
    world.cloud.storage.buckets["test-bucket"].update({"location": "US", "locationType": "multi-region"})
    assert not any(each.check == "bucket.egress" for each in world.found())
