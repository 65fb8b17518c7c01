"""The account of image builds: which it is, whether the caller may act as it, and what it may do."""

import pytest

from .conftest import BUILDER, IMAGE, IMAGES, RUNNER

COMPUTE = "123456789012-compute@developer.gserviceaccount.com"
LEGACY = "123456789012@cloudbuild.gserviceaccount.com"
ME = "serviceAccount:tester@test-project.iam.gserviceaccount.com"


def builds(world):
    """Returns the findings about builds that are not fine."""
    return {one.check: one for one in world.everything() if one.check.startswith("builds.")}


def test_without_an_account_it_is_the_one_that_cloud_build_takes(world):
    world.own["build_service_account"] = None
    world.grant("projects/test-project", "roles/cloudbuild.builds.builder", f"serviceAccount:{COMPUTE}")
    found = builds(world)
    assert {check: one.level for check, one in found.items()} == {"builds.account": "warning"}
    assert found["builds.account"].subject == COMPUTE
    assert "gcloud iam service-accounts create pipelines-builder --project test-project" in found["builds.account"].hint
    assert 'build_service_account = "pipelines-builder@' in found["builds.account"].hint


def test_a_default_account_without_roles_comes_with_every_command(world):
    world.own["build_service_account"] = None
    world.cloud.policies.missing.add("iam.serviceAccounts.actAs")
    hints = {check: one.hint for check, one in builds(world).items()}
    assert hints["builds.act_as"] == (
        f"gcloud iam service-accounts add-iam-policy-binding {COMPUTE} --project test-project --member {ME} "
        "--role roles/iam.serviceAccountUser"
    )
    member = f"--member serviceAccount:{COMPUTE} --role roles/"
    repository = "images --project test-project --location us-central1"
    assert hints["builds.images"] == (
        f"gcloud artifacts repositories add-iam-policy-binding {repository} {member}artifactregistry.writer"
    )
    assert f"gs://test-bucket {member}storage." in hints["builds.source"]
    assert hints["builds.logs"] == f"gcloud projects add-iam-policy-binding test-project {member}logging.logWriter"


def test_a_missing_default_account_is_reported(world):
    world.own["build_service_account"], world.cloud.builds.account = None, ""
    assert "every build would be refused" in builds(world)["builds.account"].seen


def test_cloud_builds_own_account_of_older_projects_needs_no_act_as_grant(world):
    world.own["build_service_account"], world.cloud.builds.account = None, LEGACY
    world.grant("projects/test-project", "roles/cloudbuild.builds.builder", f"serviceAccount:{LEGACY}")
    assert builds(world).keys() == {"builds.account"}


def test_an_account_that_is_not_there_is_a_warning(world):
    del world.cloud.accounts.accounts[BUILDER]
    assert "is not there" in builds(world)["builds.act_as"].seen


@pytest.mark.parametrize("place", ["objects/builds/", "objects/build", "objects/elsewhere/"])
def test_objects_below_builds_are_all_that_it_needs(world, place, monkeypatch):
    expression = f"resource.name.startsWith('projects/_/buckets/test-bucket/{place}')"
    conditional = {"role": "roles/storage.objectUser", "members": [f"serviceAccount:{BUILDER}"],
                   "condition": {"title": "builds-only", "expression": expression}}  # fmt: skip
    world.cloud.storage.bindings["test-bucket"]["roles/storage.objectUser"] = [f"serviceAccount:{RUNNER}"]
    world.cloud.storage.conditional["test-bucket"] = [conditional]
    found = builds(world)
    assert ("builds.source" in found) == (place == "objects/elsewhere/")


def test_an_image_elsewhere_is_not_built_here(world):
    world.own["image"] = "docker.io/pytorch/pytorch:2.9.0"
    assert builds(world) == {}


def test_a_repository_that_it_may_not_write_is_named(world):
    del world.cloud.policies.bindings[IMAGES]["roles/artifactregistry.writer"]
    found = builds(world)["builds.images"]
    assert found.subject == IMAGE.rpartition("/")[0] and "uploadArtifacts" in found.seen
