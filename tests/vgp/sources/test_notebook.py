"""Notebooks: cells as one program, commands behind !, cells of bash, files that cells write."""

import json

from vgp.check.check import check
from vgp.sources.reading import parse

RUN = 'job.run(machine_type="g2-standard-24", accelerator_type="NVIDIA_L4", accelerator_count=GPUS)'
COMMAND = "gcloud ai custom-jobs create --region=us-central1 --config=job.yaml"
BODY = (
    "%%writefile job.yaml\nworkerPoolSpecs:\n- machineSpec: {machineType: n1-standard-4, acceleratorType: "
    "NVIDIA_TESLA_T4, acceleratorCount: 8}\n  replicaCount: 1\n  containerSpec: {imageUri: a.b/c:1}"
)


def errors(*cells):
    data = {"cells": [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells], "nbformat": 4}
    return [each.rule for each in check(parse("train.ipynb", json.dumps(data))).of_severity("error")]


def test_cells_are_one_program():
    assert errors("GPUS = 2", RUN) == [] and errors("GPUS = 4", RUN) == ["GPU003"]


def test_a_cell_that_is_no_python_does_not_hide_the_others():
    assert errors("GPUS = 4", "%%html\n<b>", "this is no Python", "!pip install x", "%matplotlib inline\n" + RUN) == [
        "GPU003"
    ]


def test_commands_stand_behind_a_mark_or_in_a_cell_of_bash():
    assert errors(BODY, f"! {COMMAND}") == ["GPU003"] and errors(BODY, f"%%bash\n{COMMAND}") == ["GPU003"]
    pool = "--worker-pool-spec=machine-type=n1-standard-5,container-image-uri={IMAGE}"
    assert errors(f"! gcloud ai custom-jobs create --region={{REGION}} \\\n  {pool}") == ["GPU001"]


def test_a_notebook_without_a_request_is_no_finding():
    assert errors("print(1)") == [] and errors() == []


def test_what_a_program_lacks_may_stand_in_a_cell_that_is_left_out():
    job = 'aiplatform.CustomJob("a", [{"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1,'
    job += ' "container_spec": {"image_uri": "a.b/c:1"}}])'
    assert errors(job) == ["GPU034"] and errors("no Python at all", job) == []
