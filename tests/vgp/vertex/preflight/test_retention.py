"""A bucket that deletes what a cached result points at is refused, and one that lets nothing be replaced."""

from datetime import date
from types import SimpleNamespace

import pytest

from vgp.vertex.preflight import cheap
from vgp.vertex.preflight.run_bucket import too_soon

RUNS = ["runs/"]
#: Days that are ahead, and long over, whenever this runs.
AHEAD, OVER = "9999-01-01", "2020-01-01"


def found(world, *rules, **bucket):
    """The level and the words of bucket.retention where the bucket has these rules, of which a mapping deletes."""
    listed = [rule if "action" in rule else {"action": {"type": "Delete"}, "condition": rule} for rule in rules]
    world.cloud.storage.buckets["test-bucket"].update({"lifecycle": {"rule": listed}, **bucket})
    (finding,) = [one for one in cheap(world.settings()) if one.check == "bucket.retention"]
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
        return too_soon(bucket, "runs/", date(2026, 3, 1))

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
        ({"retentionPolicy": {"retentionPeriod": "60", "isLocked": True}}, "locked for good", "Name another bucket"),
        ({"defaultEventBasedHold": True}, "a hold for every new object", "--no-default-event-based-hold"),
    ],
)
def test_a_bucket_in_which_nothing_can_be_replaced_is_an_error(world, kept, words, fix):
    finding = found(world, **kept)
    assert finding.level == "error" and words in finding.seen and "heartbeat" in finding.seen and fix in finding.hint


def test_what_is_deleted_softly_is_replaced_like_anything_else(world):
    assert found(world, softDeletePolicy={"retentionDurationSeconds": "604800"}).level == "ok"
