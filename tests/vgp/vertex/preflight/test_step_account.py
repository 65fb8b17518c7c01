"""The account that steps run as: there, usable, with the roles that a run needs and no more."""

import pytest

from .conftest import ACCOUNT, RUNNER


def test_an_account_that_is_not_there_is_an_error(world):
    del world.cloud.accounts.accounts[RUNNER]
    found = world.only("identity.account", "error")
    assert found.hint == "gcloud iam service-accounts create pipelines --project test-project"


def test_a_disabled_account_is_an_error(world):
    world.cloud.accounts.accounts[RUNNER]["disabled"] = True
    assert world.only("identity.account", "error").hint == f"gcloud iam service-accounts enable {RUNNER}"


def test_the_error_for_a_caller_who_may_not_act_as_it_names_the_role(world):
    world.cloud.policies.missing.add("iam.serviceAccounts.actAs")
    assert world.only("identity.act_as", "error").hint == (
        f"gcloud iam service-accounts add-iam-policy-binding {RUNNER} --project test-project "
        "--member serviceAccount:tester@test-project.iam.gserviceaccount.com --role roles/iam.serviceAccountUser"
    )


def test_an_account_that_may_not_act_as_itself_cannot_start_the_training_job(world):
    world.cloud.policies.bindings[ACCOUNT] = {}
    found = world.only("identity.itself", "error")
    assert found.hint.endswith(f"--member serviceAccount:{RUNNER} --role roles/iam.serviceAccountUser")


@pytest.mark.parametrize(
    ("role", "check"), [("roles/aiplatform.user", "identity.jobs"), ("roles/logging.logWriter", "identity.logs")]
)
def test_a_role_that_a_run_needs_is_missed(world, role, check):
    del world.cloud.policies.bindings["projects/test-project"][role]
    assert world.only(check, "error").hint == (
        f"gcloud projects add-iam-policy-binding test-project --member serviceAccount:{RUNNER} --role {role}"
    )


def test_an_account_that_may_not_read_logs_is_a_warning_where_a_step_has_a_ladder(world):
    rungs = [{"machine": "g2-standard-24", "strategy": "spot"}, {"machine": "g2-standard-24"}]
    world.own["steps"] = {"train": {"capacity": rungs}}
    found = next(each for each in world.found() if each.check == "identity.last_words")
    assert (found.level, found.hint.rpartition(" ")[2]) == ("warning", "roles/logging.viewer")
    world.grant("projects/test-project", "roles/logging.viewer", f"serviceAccount:{RUNNER}")
    assert not any(each.check == "identity.last_words" for each in world.found())


@pytest.mark.parametrize("role", ["roles/owner", "roles/editor"])
def test_an_account_that_may_do_everything_is_a_warning(world, role):
    world.grant("projects/test-project", role, f"serviceAccount:{RUNNER}")
    found = world.only("identity.least", "warning")
    assert found.hint == (
        f"gcloud projects remove-iam-policy-binding test-project --member serviceAccount:{RUNNER} --role {role}"
    )


def test_without_an_account_the_default_one_is_a_warning(world):
    world.own["service_account"] = None
    default = "123456789012-compute@developer.gserviceaccount.com"
    member = f"serviceAccount:{default}"
    world.grant("projects/test-project", "roles/editor", member)
    world.grant("projects/test-project", "roles/storage.objectUser", member)
    world.grant("projects/test-project", "roles/secretmanager.secretAccessor", member)
    found = {each.check: each for each in world.found()}
    assert {check: each.level for check, each in found.items()} == {
        "identity.chosen": "warning", "identity.least": "warning",
    }  # fmt: skip
    assert found["identity.chosen"].subject == default
    assert "gcloud iam service-accounts create" in found["identity.chosen"].hint


def test_a_policy_that_may_not_be_read_leaves_the_roles_unknown(world):
    world.forbid("cloudresourcemanager.projects.getIamPolicy", "resourcemanager.projects.getIamPolicy")
    found = world.only("identity.roles", "unknown")
    assert "the policy of test-project is not seen" in found.seen and "roles/browser" in found.hint
    assert len([call for call in world.calls() if call == "cloudresourcemanager.projects.getIamPolicy"]) == 1


def test_a_custom_role_and_a_condition_leave_it_unknown(world):
    bindings = world.cloud.policies.bindings["projects/test-project"]
    del bindings["roles/aiplatform.user"]
    world.grant("projects/test-project", "projects/test-project/roles/trainer", f"serviceAccount:{RUNNER}")
    found = world.only("identity.jobs", "unknown")
    assert found.seen.endswith("unless through the custom role projects/test-project/roles/trainer")


def test_an_account_that_may_not_be_seen_is_unknown(world):
    world.forbid("iam.projects.serviceAccounts.get", "iam.serviceAccounts.get")
    assert "roles/iam.serviceAccountViewer" in world.only("identity.account", "unknown").hint
