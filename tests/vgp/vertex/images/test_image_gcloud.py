"""The command that `vgp image build --dry-run` prints, run by the real gcloud on the loopback cloud."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from loopback.cloud import Cloud
from rich.console import Console

from vgp.settings import load
from vgp.vertex.images.image_build import Options, plan
from vgp.vertex.images.source import find

ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")


def test_gcloud_takes_the_configuration_and_builds_the_same_source(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.credentials = False  # gcloud asks without
    # The API's description calls the parameter required; gcloud leaves it out, for the path says it.
    cloud.on("cloudbuild.*", lambda call: call.repeated.setdefault("projectId", [cloud.project]), before=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PIPELINES_IMAGE", "us-central1-docker.pkg.dev/test-project/images/training:not-built")
    wanted = plan(load(), Options(allow_dirty=True), root=ROOT, console=Console(quiet=True))
    gcloud([*wanted["command"], "--async"], cloud, tmp_path)
    (made,) = cloud.builds.builds.values()
    assert sorted(made.files) == sorted(find(ROOT).files)
    assert made.message["images"] == wanted["configuration"]["images"]
    assert made.message["logsBucket"] == "gs://test-bucket/builds/logs"
    assert made.message["steps"][0]["args"] == wanted["configuration"]["steps"][0]["args"]


def gcloud(command: list[str], cloud: Cloud, folder: Path) -> None:
    overrides = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBUILD": f"{cloud.endpoint('cloudbuild')}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{cloud.endpoint('storage')}/storage/v1/",
        "CLOUDSDK_AUTH_DISABLE_CREDENTIALS": "true",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
    }
    done = subprocess.run(command, env=os.environ | overrides, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
