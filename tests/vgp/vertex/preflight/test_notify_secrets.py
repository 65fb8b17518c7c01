"""The address that hears how a run ended, where Secret Manager has it: the runner may read it."""

from .conftest import RUNNER, SECRET


def test_a_runner_that_may_not_read_it_is_a_warning_with_the_command(world):
    del world.cloud.policies.bindings[SECRET]
    assert world.only("notify.secret", "warning").hint == (
        "gcloud secrets add-iam-policy-binding runs-webhook --project test-project "
        f"--member serviceAccount:{RUNNER} --role roles/secretmanager.secretAccessor"
    )


def test_a_secret_that_is_not_there_is_a_warning_with_the_command(world):
    world.cloud.secrets.versions.clear()
    assert world.only("notify.secret", "warning").hint.startswith("gcloud secrets create runs-webhook --project")


def test_a_policy_that_may_not_be_read_is_unknown(world):
    world.forbid("secretmanager.projects.secrets.getIamPolicy", "secretmanager.secrets.getIamPolicy")
    world.only("notify.secret", "unknown")


def test_its_api_has_to_be_on(world):
    world.cloud.services.enabled.discard("secretmanager.googleapis.com")
    assert "secretmanager.googleapis.com" in world.only("apis.enabled", "error").hint


def test_an_address_in_the_settings_needs_no_secret(world, monkeypatch):
    monkeypatch.setenv("PIPELINES_NOTIFY__WEBHOOK", "https://example.com/runs")
    world.cloud.services.enabled.discard("secretmanager.googleapis.com")
    assert world.found() == []


def test_the_token_of_an_mlflow_server_is_a_secret_too(world, monkeypatch):
    monkeypatch.setenv("PIPELINES_MLFLOW__TRACKING_URI", "https://mlflow.example.com")
    monkeypatch.setenv("PIPELINES_MLFLOW__TOKEN", "projects/test-project/secrets/mlflow-token/versions/2")
    finding = world.only("mlflow.secret", "warning")
    assert (
        finding.hint.startswith("gcloud secrets create mlflow-token")
        and "runs would not be logged to MLflow" in finding.seen
    )
    world.cloud.secrets.versions["mlflow-token"] = ["t"] * 2
    assert "add-iam-policy-binding mlflow-token" in world.only("mlflow.secret", "warning").hint
    world.grant("projects/test-project/secrets/mlflow-token", "roles/secretmanager.secretAccessor",
                f"serviceAccount:{RUNNER}")  # fmt: skip
    assert world.found() == []
