"""Who asks: credentials, project, billing and the caller's permissions."""

import pytest

from tools.emulator.cloud import status
from vgp.base.errors import RequestError
from vgp.vertex import clients


def test_a_project_in_which_everything_is_fine_has_no_finding(world):
    assert world.found() == []


def test_credentials_that_are_not_accepted_end_the_questions(world, monkeypatch):
    def refused(body):
        raise ValueError("no")

    monkeypatch.setattr(world.cloud.tokens, "give", refused)
    (found,) = world.look()
    assert (found.check, found.level) == ("account.credentials", "error")
    assert "gcloud auth application-default login" in found.hint
    assert world.calls() == []


def test_without_credentials_the_message_explains_how_to_get_some(world, monkeypatch, tmp_path):
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    clients.credentials.cache_clear()
    (found,) = world.look()
    assert (found.check, found.level) == ("account.credentials", "error")
    assert "gcloud auth application-default login" in found.hint


def test_a_project_is_needed(world, monkeypatch):
    monkeypatch.delenv("PIPELINES_PROJECT")
    with pytest.raises(RequestError, match="no project is set"):
        world.look()


def test_a_project_that_is_being_deleted_ends_the_questions(world):
    world.cloud.projects.state = "DELETE_REQUESTED"
    found = world.only("account.project", "error")
    assert "gcloud projects undelete test-project" in found.hint
    assert world.calls() == ["cloudresourcemanager.projects.get"]


def test_a_project_that_may_not_be_seen_leaves_its_number_unknown(world):
    world.forbid("cloudresourcemanager.projects.get", "resourcemanager.projects.get")
    found = {each.check: each for each in world.found()}
    assert {check: each.level for check, each in found.items()} == {
        "account.project": "unknown", "bucket.owner": "unknown", "key.agent": "unknown",
    }  # fmt: skip
    assert "roles/browser" in found["account.project"].hint


def test_a_project_without_billing_is_an_error(world):
    world.cloud.billing.enabled = False
    assert "billing/linkedaccount?project=test-project" in world.only("account.billing", "error").hint


def test_billing_that_may_not_be_seen_is_unknown(world):
    world.forbid("cloudbilling.projects.getBillingInfo", "resourcemanager.projects.get")
    world.only("account.billing", "unknown")


def test_the_error_for_a_caller_who_may_not_start_runs_names_the_role(world):
    world.cloud.policies.missing.add("aiplatform.pipelineJobs.create")
    found = world.only("account.permissions", "error")
    assert found.seen == "lacks aiplatform.pipelineJobs.create: submit, rerun, schedule"
    assert found.hint == (
        "gcloud projects add-iam-policy-binding test-project "
        "--member serviceAccount:tester@test-project.iam.gserviceaccount.com --role roles/aiplatform.user"
    )


@pytest.mark.parametrize(
    ("permission", "verb", "role"),
    [
        ("logging.logEntries.list", "logs", "roles/logging.viewer"),
        ("cloudbuild.builds.create", "image", "roles/cloudbuild.builds.editor"),
    ],
)
def test_a_caller_who_leaves_some_verbs_to_others_is_warned(world, permission, verb, role):
    world.cloud.policies.missing.add(permission)
    found = world.only("account.permissions", "warning")
    assert found.seen == f"lacks {permission}: {verb}" and found.hint.endswith(f"--role {role}")


def test_an_api_that_is_busy_is_asked_again(world):
    world.cloud.fail("cloudresourcemanager.projects.get", status(503))
    assert world.found() == []


@pytest.mark.parametrize(
    ("account", "principal"), [("you@example.com", "user:you@example.com"), ("", "a user")], ids=["named", "not named"]
)
def test_a_signed_in_user_is_named_where_the_credentials_hold_the_name(world, monkeypatch, account, principal):
    from google.oauth2.credentials import Credentials

    world.cloud.tokens.given.add("ya29.user")
    world.cloud.policies.missing.add("aiplatform.schedules.create")
    with monkeypatch.context() as patched:
        patched.setattr(clients, "credentials", lambda: Credentials("ya29.user", account=account))
        found = world.only("account.permissions", "error")
    assert found.subject == principal
    assert f"--member {principal if account else 'MEMBER'} --role" in found.hint
