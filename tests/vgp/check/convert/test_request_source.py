"""Every form of a training job that `vgp check` reads is converted; requests without a training job are refused."""

import json
import re

import pytest
import yaml

from tests.vgp.check.convert.verb import DAY, convert
from vgp.base.documents.document import parse
from vgp.check.checker import check
from vgp.check.document_kinds import load

MACHINE = {"machineType": "g2-standard-24", "acceleratorType": "NVIDIA_L4", "acceleratorCount": 2}
FIELDS = 'machine_type="g2-standard-24", accelerator_type="NVIDIA_L4", accelerator_count=2'
POOL = {"machineSpec": MACHINE, "replicaCount": 1, "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i:1"}}
SNAKE = (
    '[{"machine_spec": {"machine_type": "g2-standard-24", "accelerator_type": "NVIDIA_L4", "accelerator_count": 2}, '
    '"replica_count": 1, "container_spec": {"image_uri": IMAGE}}]'
)
LINE = (
    "gcloud ai custom-jobs create --region=us-central1 --display-name=$JOB_NAME --worker-pool-spec="
    "machine-type=g2-standard-24,accelerator-type=NVIDIA_L4,accelerator-count=2,container-image-uri=$IMAGE"
)
CUT = LINE.replace(" --region", " \\  # the region of the bucket\n  --region").replace(" --worker", " \\\n  --worker")
LEGACY = (
    "gcloud ai-platform jobs submit training $JOB_NAME \\\n  --region us-central1 --scale-tier CUSTOM \\\n"
    "  --master-machine-type n1-standard-8 --master-image-uri $IMAGE --job-dir gs://$BUCKET/$JOB_NAME \\\n"
    "  -- --epochs=$EPOCHS\n"
)
TERRAFORM = """resource "google_vertex_ai_custom_job" "it" {
  location = "us-central1"
  job_spec {
    worker_pool_specs {
      machine_spec {
        machine_type      = "g2-standard-24"
        accelerator_type  = "NVIDIA_L4"
        accelerator_count = 2
      }
      replica_count = 1
      container_spec {
        image_uri = var.image
      }
    }
  }
}
"""
CELLS = [["%pip install google-cloud-aiplatform"], f"! {CUT}".splitlines(keepends=True)]
JOBS = {
    "pools.json": json.dumps([POOL]),
    "pool.json": json.dumps(POOL),
    "spec.yaml": yaml.safe_dump({"workerPoolSpecs": [POOL]}),
    "job.json": json.dumps({"displayName": "a", "jobSpec": {"workerPoolSpecs": [POOL]}}),
    "body.json": json.dumps({"customJob": {"displayName": "a", "jobSpec": {"workerPoolSpecs": [POOL]}}}),
    "pipeline-job.json": json.dumps({"trainingPipeline": {"trainingTaskInputs": {"workerPoolSpecs": [POOL]}}}),
    "run.sh": f"#!/bin/bash\nJOB_NAME=a_$(date +%s)\n{CUT}\n",
    "second.sh": f"gcloud ai endpoints deploy-model 1 --region=us-central1 --machine-type=n1-standard-4\n{LINE}\n",
    "custom_job.py": f"IMAGE = build()\njob = aiplatform.CustomJob(display_name='a', worker_pool_specs={SNAKE})\n",
    "run.py": f"job = aiplatform.CustomContainerTrainingJob('a', container_uri=IMAGE)\njob.run({FIELDS})\n",
    "elsewhere.py": f"make().run({FIELDS})\n",
    "component.py": f"train = create_custom_training_job_from_component(step, {FIELDS})\n",
    "literal.py": f"body = {{'job_spec': {{'worker_pool_specs': {SNAKE}}}}}\n",
    "main.tf": TERRAFORM,
    "job.ipynb": json.dumps({"cells": [{"cell_type": "code", "source": cell} for cell in CELLS], "nbformat": 4}),
    CUT: "",
    f"$ {LINE}": "",
}


@pytest.mark.parametrize("source", JOBS)
def test_every_form_of_a_job_that_check_reads_is_converted_with_its_machine(tmp_path, monkeypatch, capsys, source):
    monkeypatch.chdir(tmp_path)
    if JOBS[source]:
        (tmp_path / source).write_text(JOBS[source])
        assert check(load(tmp_path / source), as_of=DAY).steps
    assert convert(source) == 0
    out, err = capsys.readouterr()
    assert not check(parse("config.yaml", out), as_of=DAY).errors
    assert [pool["machineSpec"] for pool in yaml.safe_load(out)["workerPoolSpecs"]] == [MACHINE]
    variables = re.findall(r"\$\w+", out)
    assert all(f": {word}: known only at run time" in err for word in variables)
    assert len(variables) == ("i:1" not in out)  # the image, if only the run knows it


def test_a_legacy_line_keeps_its_variables_and_leaves_out_the_name_that_only_the_shell_knows(capsys):
    assert convert(LEGACY) == 0
    out, err = capsys.readouterr()
    job = yaml.safe_load(out)
    assert job["baseOutputDirectory"] == {"outputUriPrefix": "gs://$BUCKET/$JOB_NAME"}
    assert job["workerPoolSpecs"][0]["containerSpec"]["args"][0] == "--epochs=$EPOCHS"
    assert "jobId: lost: known only at run time: $JOB_NAME" in err and "--display-name=training" in err


def test_a_comment_after_a_backslash_is_reported_with_its_line(tmp_path, capsys):
    (tmp_path / "run.sh").write_text(f"set -e\n{CUT}\n")
    assert convert(str(tmp_path / "run.sh")) == 0 and "line 2: The command is cut here" in capsys.readouterr().err
    assert convert(CUT) == 0 and "line 1: The command is cut here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [("deploy.py", f"model.deploy({FIELDS})\n", "no worker pool"), ("empty.py", "print(1)\n", "nothing to convert"),
     ("broken.py", "aiplatform.CustomJob(worker_pool_specs=[\n", "no Python"),
     ("unknown.py", "aiplatform.CustomJob('a', worker_pool_specs=make())\n", "jobSpec.workerPoolSpecs is known only"),
     ("bare.sh", "gcloud ai custom-jobs create --region=us-central1\n", "requests no machine")],
)  # fmt: skip
def test_a_program_without_a_training_job_is_refused_with_the_reason(tmp_path, capsys, name, text, words):
    (tmp_path / name).write_text(text)
    assert convert(str(tmp_path / name)) == 2
    output = capsys.readouterr()
    assert words in output.err and not output.out


@pytest.mark.parametrize(
    ("name", "document", "place"),
    [("values.yaml", {"trainer": {"job": {"workerPoolSpecs": [POOL]}}}, "trainer.job"),
     ("pools.yaml", {"experiments": {"pools": [POOL]}}, "experiments.pools"),
     ("body.yaml", {"tasks": [{"body": json.dumps({"jobSpec": {"workerPoolSpecs": [POOL]}})}]}, "tasks[0].body"),
     ("jobs.json", [{"kind": "other"}, {"jobSpec": {"workerPoolSpecs": [POOL]}}], "[1]")],
)  # fmt: skip
def test_a_job_inside_another_document_is_converted_with_its_place(tmp_path, capsys, name, document, place):
    (tmp_path / name).write_text(json.dumps(document))
    assert convert(str(tmp_path / name)) == 0
    output = capsys.readouterr()
    assert yaml.safe_load(output.out)["workerPoolSpecs"][0]["machineSpec"] == MACHINE
    assert f"{place}: only this part is converted" in output.err


def test_a_machine_without_a_job_is_refused_with_its_place(tmp_path, capsys):
    (tmp_path / "params.yaml").write_text(json.dumps({"train": MACHINE}))
    assert convert(str(tmp_path / "params.yaml")) == 2
    assert "the request at train has a machine, but no worker pool" in capsys.readouterr().err


def test_each_unknown_value_of_a_program_has_a_variable_of_its_own(tmp_path, capsys):
    container = SNAKE.replace('{"image_uri": IMAGE}', '{"image_uri": "r/i:1", "args": [f"--lr={lr}", f"--n={n}"]}')
    (tmp_path / "train.py").write_text(f"CustomJobSpec(worker_pool_specs={container})\n")
    assert convert(str(tmp_path / "train.py")) == 0
    (pool,) = yaml.safe_load(capsys.readouterr().out)["workerPoolSpecs"]
    assert pool["containerSpec"]["args"] == ["$ARGS", "$ARGS_2"]
