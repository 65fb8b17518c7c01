"""The Terraform text is formatted, says exactly what the message says, and nothing in it is evaluated."""

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from vgp.settings import Settings
from vgp.vertex.schedules import terraform

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


def call(folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": os.devnull, "CHECKPOINT_DISABLE": "1"}
    return subprocess.run(
        ["terraform", *words], input=given, cwd=folder, env=environment, text=True, capture_output=True
    )


@needs_terraform
def test_terraform_would_format_it_the_same(rich: Settings, tmp_path: Path) -> None:
    end = datetime(2040, 1, 1, tzinfo=UTC)
    several = [
        make(rich, paused=True, end=end, max_runs=3, queueing=True, parameters={"champion": SLY, "epochs": 2.5}),
        make(rich, "weekly"),
    ]
    (tmp_path / "main.tf").write_text(terraform.text(rich, several))
    done = call(tmp_path, "fmt", "-check", "-diff")
    assert (done.returncode, done.stdout) == (0, "")


@needs_terraform
@pytest.mark.parametrize(
    "value", [SLY, "${path.root}", "%{", "$", "%", "$$", "%$${x}", {"for": [1, 2.5, None, True]}, []]
)
def test_a_value_means_itself_to_terraform(value: Any, tmp_path: Path) -> None:
    lines = terraform._attribute("it", {"a ${b}": value})
    (tmp_path / "main.tf").write_text("\n".join(["locals {", *lines, "}", ""]))
    # Terraform's own JSON, made from JSON: what Python and HCL escape differently does not matter.
    (tmp_path / "expected").write_text(json.dumps({"a ${b}": value}))
    done = call(tmp_path, "console", given='jsonencode(local.it) == jsonencode(jsondecode(file("expected")))\n')
    assert done.stdout.strip() == "true", done.stderr


def test_everything_that_is_sent_is_in_it(rich: Settings) -> None:
    text = terraform.text(rich, [make(rich, queueing=True, max_runs=3)])
    for line in (
        'resource "google_vertex_ai_schedule" "nightly" {',
        'location                        = "us-central1"',
        'cron                            = "CRON_TZ=Europe/Berlin 30 3 * * *"',
        "allow_queueing                  = true",
        "max_run_count                   = 3",
        'parent = "projects/my-project/locations/us-central1"',
        'service_account = "runner@my-project.iam.gserviceaccount.com"',
        'network         = "projects/1/global/networks/n"',
        'kms_key_name = "projects/my-project/locations/us-central1/keyRings/r/cryptoKeys/k"',
        'gcs_output_directory = "gs://my-bucket/runs"',
        "pipeline_spec = jsonencode({",
        'environment          = "prod"',
        'team                 = "flights"',
    ):
        assert line in text, line


def test_apply_leaves_what_terraform_made_alone(rich: Settings) -> None:
    text = terraform.text(rich, [make(rich)])
    assert 'managed-by           = "terraform"' in text
    assert "vertex-gpu-pipelines" not in text


def test_values_that_are_no_texts_become_defaults_of_the_pipeline() -> None:
    spec, texts = terraform._with_defaults(SMALL, {"epochs": 2, "task_options": {"a": 1}, "champion": "gs://a"})
    declared = spec["root"]["inputDefinitions"]["parameters"]
    assert (declared["epochs"]["defaultValue"], declared["task_options"]["defaultValue"]) == (2, {"a": 1})
    assert texts == {"champion": "gs://a"}
    assert SMALL["root"]["inputDefinitions"]["parameters"]["epochs"]["defaultValue"] != 2


def test_a_declared_pause_is_told(rich: Settings) -> None:
    assert "# Declared as paused" in terraform.text(rich, [make(rich, paused=True)])
