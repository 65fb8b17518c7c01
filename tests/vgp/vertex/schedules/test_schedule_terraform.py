"""The Terraform document holds exactly the values of the message, and nothing in it is evaluated."""

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from vgp.settings import Settings
from vgp.vertex.schedules import schedule_fields, schedule_terraform

from .conftest import SMALL, make

RICH = {
    "environment": "prod",
    "project": "my-project",
    "bucket": "gs://my-bucket",
    "service_account": "runner@my-project.iam.gserviceaccount.com",
    "network": "projects/1/global/networks/n",
    "encryption_key": "projects/my-project/locations/us-central1/keyRings/r/cryptoKeys/k",
    "labels": {"team": "flights"},
}
SLY = 'a"${file("/etc/passwd")}%{if true}x%{endif}\\ $${y} $$${z}\n\t\x07 é\u2028'
needs_terraform = pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")


@pytest.fixture
def rich() -> Settings:
    return Settings().model_copy(update=RICH)


def schedules(text: str) -> dict[str, Any]:
    return dict(json.loads(text)["resource"]["google_vertex_ai_schedule"])


def evaluated(value: Any) -> Any:
    """As Terraform reads a text: `$${` and `%%{` are the ways to write `${` and `%{`."""
    if isinstance(value, str):
        return value.replace("$${", "${").replace("%%{", "%{")
    return value


@needs_terraform
@pytest.mark.parametrize(
    "value", [SLY, "${path.root}", "%{", "$", "%", "$$", "%$${x}", {"for": "${x}", "a ${b}": ""}, {}]
)
def test_a_value_means_itself_to_terraform(value: Any, tmp_path: Path) -> None:
    (tmp_path / "main.tf.json").write_text(json.dumps(schedule_terraform._escape({"locals": {"it": value}})))
    # Terraform's own JSON, made from JSON: what Python and Terraform escape differently does not matter.
    (tmp_path / "expected").write_text(json.dumps(value))
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1"}
    done = subprocess.run(
        ["terraform", "console"], input='jsonencode(local.it) == jsonencode(jsondecode(file("expected")))\n',
        cwd=tmp_path, env=environment, text=True, capture_output=True,
    )  # fmt: skip
    assert done.stdout.strip() == "true", done.stderr


def test_everything_that_is_sent_is_in_it(rich: Settings) -> None:
    end = datetime(2040, 1, 1, tzinfo=UTC)
    declaration = make(rich, queueing=True, max_runs=3, end=end, parameters={"champion": "gs://a", "epochs": 2.5})
    written = schedules(schedule_terraform.render_text(rich, [declaration]))["nightly"]
    request = written.pop("create_pipeline_job_request")
    assert written == {
        "project": "my-project", "location": "us-central1", "display_name": "nightly (prod)",
        "cron": "CRON_TZ=Europe/Berlin 30 3 * * *", "end_time": "2040-01-01T00:00:00Z", "allow_queueing": True,
        "max_concurrent_run_count": 1, "max_concurrent_active_run_count": 1, "max_run_count": 3,
    }  # fmt: skip
    job = request.pop("pipeline_job")
    assert request == {"parent": "projects/my-project/locations/us-central1"}
    assert (job["service_account"], job["network"]) == (RICH["service_account"], RICH["network"])
    assert job["encryption_spec"] == {"kms_key_name": RICH["encryption_key"]}
    assert job["runtime_config"] == {
        "gcs_output_directory": "gs://my-bucket/runs", "failure_policy": "PIPELINE_FAILURE_POLICY_FAIL_SLOW",
        "parameter_values": {"champion": "gs://a"},
    }  # fmt: skip
    assert (job["labels"]["environment"], job["labels"]["team"]) == ("prod", "flights")
    spec = json.loads(evaluated(job["pipeline_spec"]))
    assert spec["root"]["inputDefinitions"]["parameters"]["epochs"].pop("defaultValue") == 2.5
    sent = json.loads(json.dumps(schedule_fields.spec(declaration.message).content))
    sent["root"]["inputDefinitions"]["parameters"]["epochs"].pop("defaultValue", None)
    assert spec == sent


def test_no_text_of_a_spec_or_a_parameter_is_evaluated(rich: Settings) -> None:
    text = schedule_terraform.render_text(rich, [make(rich, parameters={"champion": SLY})])
    assert "${" not in text.replace("$${", "") and "%{" not in text.replace("%%{", "")


def test_apply_leaves_what_terraform_made_alone(rich: Settings) -> None:
    text = schedule_terraform.render_text(rich, [make(rich)])
    labels = schedules(text)["nightly"]["create_pipeline_job_request"]["pipeline_job"]["labels"]
    assert labels["managed-by"] == "terraform"
    assert "vertex-gpu-pipelines" not in text


def test_values_that_are_no_texts_become_defaults_of_the_pipeline(rich: Settings) -> None:
    values = {"epochs": 2, "task_options": {"a": 1}, "champion": "gs://a"}
    job = schedules(schedule_terraform.render_text(rich, [make(rich, parameters=values)]))["nightly"][
        "create_pipeline_job_request"
    ]["pipeline_job"]
    declared = json.loads(evaluated(job["pipeline_spec"]))["root"]["inputDefinitions"]["parameters"]
    assert (declared["epochs"]["defaultValue"], declared["task_options"]["defaultValue"]) == (2, {"a": 1})
    assert job["runtime_config"]["parameter_values"] == {"champion": "gs://a"}
    assert SMALL["root"]["inputDefinitions"]["parameters"]["epochs"]["defaultValue"] != 2


def test_a_declared_pause_is_reported(rich: Settings) -> None:
    written = schedules(schedule_terraform.render_text(rich, [make(rich, paused=True), make(rich, "weekly")]))
    assert written["nightly"]["//"].startswith("Declared as paused") and "//" not in written["weekly"]
