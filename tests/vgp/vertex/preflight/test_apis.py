"""The APIs that have to be enabled, and the one command for those that are not."""

import pytest

from .conftest import World


def disable(world: World, *names: str) -> None:
    world.cloud.services.enabled -= {f"{name}.googleapis.com" for name in names}


@pytest.mark.parametrize("name", ["aiplatform", "artifactregistry", "compute", "iam", "logging", "storage"])
def test_an_api_that_runs_need_is_an_error(world, name):
    disable(world, name)
    found = world.only("apis.enabled", "error")
    assert found.seen == f"without {name}.googleapis.com"
    assert found.hint == f"gcloud services enable {name}.googleapis.com --project test-project"


def test_one_command_enables_all_that_are_missing(world):
    disable(world, "aiplatform", "compute", "cloudquotas")
    error, warning = world.found()
    assert (error.level, warning.level) == ("error", "warning")
    assert error.hint == warning.hint == (
        "gcloud services enable aiplatform.googleapis.com compute.googleapis.com cloudquotas.googleapis.com "
        "--project test-project"
    )  # fmt: skip


@pytest.mark.parametrize(("setting", "name"), [("encryption_key", "cloudkms"), ("network", "servicenetworking")])
def test_some_apis_are_needed_for_a_setting_only(world, setting, name):
    disable(world, name)
    world.only("apis.enabled", "error")
    world.own[setting] = None
    assert world.found() == []


def test_without_the_permission_to_look_nothing_is_reported_as_fine(world):
    world.forbid("serviceusage.services.batchGet", "serviceusage.services.get")
    found = world.only("apis.enabled", "unknown")
    assert "roles/serviceusage.serviceUsageConsumer" in found.hint
