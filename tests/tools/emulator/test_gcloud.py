"""gcloud at work on the loopback cloud: a client that this project did not write."""

import json
import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")
CONFIG = {
    "workerPoolSpecs": [
        {
            "machineSpec": {"machineType": "g2-standard-24", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 2},
            "replicaCount": 1,
            "containerSpec": {"imageUri": "us-central1-docker.pkg.dev/p/r/i:1", "args": ["--epochs", "3"]},
        }
    ]
}


@pytest.fixture
def gcloud(cloud, tmp_path):
    """Runs `gcloud ai custom-jobs`, without credentials, as it can on loopback."""
    cloud.credentials = False
    environment = os.environ | {
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_PROJECT": "test-project",
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
    }

    def run(*words):
        command = ["gcloud", "ai", "custom-jobs", *words, "--region=us-central1", "--format=json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    return run


def test_custom_jobs_are_created_listed_described_and_cancelled(cloud, gcloud, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    created = gcloud("create", "--display-name=mine", f"--config={path}")
    assert created["state"] == "JOB_STATE_PENDING"
    assert created["jobSpec"]["workerPoolSpecs"][0]["machineSpec"]["acceleratorType"] == "NVIDIA_L4"
    cloud.clock.advance(30)
    job_id = created["name"].rpartition("/")[2]
    assert gcloud("describe", job_id)["state"] == "JOB_STATE_RUNNING"
    gcloud("cancel", job_id)
    [listed] = gcloud("list", "--filter=displayName=mine")
    assert (listed["state"], listed["error"]["code"]) == ("JOB_STATE_CANCELLED", 1)
    methods = [call.method.rpartition(".")[2] for call in cloud.requests]
    assert methods == ["create", "get", "cancel", "list"]
