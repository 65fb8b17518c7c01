"""Google's errors, as they come over the wire, become what happened and what to do."""

import pytest
import requests
from google.api_core import exceptions
from google.auth.exceptions import TransportError
from google.cloud.aiplatform_v1.types import PipelineJob
from google.protobuf import json_format

from tools.emulator.cloud import Cloud, reset, status
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import advice, explain_errors

LIST = "aiplatform.projects.locations.pipelineJobs.list"


def answer(cloud: Cloud, settings: Settings, *faults: object) -> str:
    """The message of a call that meets the faults."""
    cloud.fail(LIST, *faults, forever=True)
    with pytest.raises(WorkFailed) as failure, explain_errors("list the runs", settings):
        list(
            clients.pipeline_service(settings).list_pipeline_jobs(
                parent=resource_names.location(settings), **clients.once()
            )
        )
    return str(failure.value)


def test_a_missing_permission_is_named_with_the_role_that_holds_it(cloud: Cloud, settings: Settings) -> None:
    text = "Permission 'aiplatform.pipelineJobs.list' denied on resource '//aiplatform.googleapis.com/x'."
    message = answer(cloud, settings, status(403, text))
    assert message.startswith("list the runs: not allowed: Permission 'aiplatform.pipelineJobs.list' denied")
    assert "roles/aiplatform.user" in message


def test_the_permission_in_the_details_counts_more_than_the_text(cloud: Cloud, settings: Settings) -> None:
    refused = status(403, "no", reason="IAM_PERMISSION_DENIED", metadata={"permission": "iam.serviceAccounts.actAs"})
    with_account = settings.model_copy(update={"service_account": "runner@p.iam.gserviceaccount.com"})
    message = answer(cloud, with_account, refused)
    assert "iam.serviceAccounts.actAs is missing" in message
    assert "roles/iam.serviceAccountUser on runner@p.iam.gserviceaccount.com" in message


COMPUTE = "123456789012-compute@developer.gserviceaccount.com"
RUNNER = "runner@other-project.iam.gserviceaccount.com"
NUMBER = "115271460646222152701"


@pytest.mark.parametrize(
    "code, text, account, home",
    [
        (400, f"You do not have permission to act as service_account: {COMPUTE}. (or it may not exist).", COMPUTE, ""),
        (
            403,
            f"You do not have permission to act as service_account: {RUNNER}. (or it may not exist).",
            RUNNER,
            "other",
        ),
        (
            403,
            f"caller does not have permission to act as service account projects/p/serviceAccounts/{NUMBER}",
            NUMBER,
            "",
        ),
        (403, f"Permission 'iam.serviceaccounts.actAs' denied on service account {RUNNER}", RUNNER, "other"),
    ],
)
def test_acting_as_an_account_comes_with_the_role_and_the_command(
    cloud: Cloud, settings: Settings, code: int, text: str, account: str, home: str
) -> None:
    message = answer(cloud, settings, status(code, text))
    me, role = "serviceAccount:tester@test-project.iam.gserviceaccount.com", "roles/iam.serviceAccountUser"
    grant = f"gcloud iam service-accounts add-iam-policy-binding {account} --project {home or 'test'}-project"
    assert message.splitlines()[1:3] == [
        f"  iam.serviceAccounts.actAs is missing: {me} needs the role {role} on {account}.",
        f"  {grant} --member {me} --role {role}",
    ]
    assert ("service_account in pipelines.toml" in message) == (account == COMPUTE)


def test_a_run_that_may_not_act_as_itself_is_distinguished_from_its_caller(settings: Settings) -> None:
    own = settings.model_copy(update={"service_account": RUNNER})
    hint = advice(f"You do not have permission to act as service_account: {RUNNER}. (or it may not exist)", own)
    assert f"add-iam-policy-binding {RUNNER} --project other-project --member serviceAccount:{RUNNER} --role" in hint


def test_an_unknown_permission_is_named_too(cloud: Cloud, settings: Settings) -> None:
    refused = status(403, "no", reason="IAM_PERMISSION_DENIED", metadata={"permission": "spanner.databases.create"})
    assert "spanner.databases.create is missing. The roles that hold it: https://" in answer(cloud, settings, refused)


def test_an_api_that_is_off_comes_with_the_command_that_enables_it(cloud: Cloud, settings: Settings) -> None:
    refused = status(403, "x", reason="SERVICE_DISABLED", metadata={"service": "aiplatform.googleapis.com"})
    message = answer(cloud, settings, refused)
    assert "gcloud services enable aiplatform.googleapis.com --project test-project" in message


def test_a_quota_comes_with_its_metric_and_the_link_to_ask_for_more(cloud: Cloud, settings: Settings) -> None:
    metric = "aiplatform.googleapis.com/custom_model_training_nvidia_l4_gpus"
    message = answer(cloud, settings, status(429, f"The following quota metrics exceed quota limits: {metric}"))
    assert "Ask for more of custom_model_training_nvidia_l4_gpus in us-central1" in message
    assert "https://console.cloud.google.com/iam-admin/quotas?project=test-project" in message


def test_a_stockout_names_what_can_be_done(settings: Settings) -> None:
    hint = advice("Resources are insufficient in region: us-central1. Please try a different region.", settings)
    assert "flex_start" in hint and "vgp machines" in hint


def test_a_preempted_job_is_reported_as_preempted(settings: Settings) -> None:
    """Exit code 75; 175 is another."""
    replica = "The replica workerpool0-0 exited with a non-zero status of {}. To find out more, see the logs."
    assert "Exit code 75: a machine of the job was preempted" in advice(replica.format(75), settings)
    assert advice(replica.format(175), settings) == ""
    assert "Exit code 69: Cloud Storage did not answer" in advice(replica.format(69), settings)


@pytest.mark.parametrize(
    "code, words", [(400, "refused"), (401, "gcloud auth application-default login"), (404, "vgp config")]
)
def test_other_answers_name_the_thing_to_check(cloud: Cloud, settings: Settings, code: int, words: str) -> None:
    assert words in answer(cloud, settings, status(code, "no such thing"))


def test_the_error_of_a_lost_connection_suggests_to_repeat_the_command(cloud: Cloud, settings: Settings) -> None:
    message = answer(cloud, settings, reset())
    assert "no connection" in message and "same command again" in message


def test_googles_message_stands_alone_without_the_url_of_the_call(cloud: Cloud, settings: Settings) -> None:
    assert answer(cloud, settings, status(400, "no such thing")) == "list the runs: refused: no such thing"


@pytest.mark.parametrize("error", [RequestError("ours"), KeyError("a fault of ours")])
def test_other_errors_pass_as_they_are(settings: Settings, error: Exception) -> None:
    with pytest.raises(type(error)), explain_errors("x", settings):
        raise error


def test_an_answer_that_is_not_googles_is_reported_as_such(settings: Settings) -> None:
    for page in ("", "<html>log in</html>"):
        with pytest.raises(WorkFailed, match="the response did not come from Google"), explain_errors("x", settings):
            json_format.Parse(page, PipelineJob.pb()())


@pytest.mark.parametrize("body", [b'{"error": "denied"}', b'["denied"]', b"\xff"])
def test_a_refusal_in_a_form_of_its_own_is_no_fault_of_ours(settings: Settings, body: bytes) -> None:
    refusal = requests.Response()
    refusal.status_code, refusal._content, refusal.request = 403, body, requests.Request("GET", "https://x").prepare()
    with pytest.raises(WorkFailed, match="^x: "), explain_errors("x", settings):
        raise exceptions.from_http_response(refusal)


def test_a_mistake_in_our_own_code_is_not_laid_on_google(settings: Settings) -> None:
    with pytest.raises(AttributeError), explain_errors("x", settings):
        settings.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_a_page_instead_of_an_error_is_cut_and_shown_as_text(cloud: Cloud, settings: Settings) -> None:
    message = answer(cloud, settings, status(502, "<html>\x1b[2J\u202e" + "x" * 9000))
    assert len(message) < 1500 and "\\x1b[2J\\u202exxx" in message


def test_no_message_is_empty(settings: Settings) -> None:
    for error in (requests.ConnectionError(), exceptions.InternalServerError("")):
        with pytest.raises(WorkFailed, match="x: .+"), explain_errors("x", settings):
            raise error


def test_a_host_that_is_not_there_is_named_with_the_reason_and_without_the_call(settings: Settings) -> None:
    with pytest.raises(WorkFailed) as failed, explain_errors("list the runs", settings):
        requests.get("http://127.0.0.1:9/v1/runs?pageSize=20", timeout=5)
    message = str(failed.value)
    assert "no connection: 127.0.0.1 cannot be reached: Failed to establish" in message
    assert "Connection refused" in message and "pageSize" not in message and "Pool" not in message


def test_a_token_that_cannot_be_fetched_without_network_is_no_reason_to_sign_in_again(settings: Settings) -> None:
    with pytest.raises(WorkFailed) as failed, explain_errors("list the runs", settings):
        raise TransportError("HTTPSConnectionPool(host='oauth2.googleapis.com', port=443): Read timed out.")
    message = str(failed.value)
    assert "no connection" in message and "No token could be fetched" in message and "gcloud auth" not in message
