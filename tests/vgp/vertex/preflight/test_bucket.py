"""The bucket: there, ours, near, ruled by one policy, and open to the runner."""

from dataclasses import replace

import pytest

from vgp.check.check_finding import RungRow

from .conftest import RUNNER

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
