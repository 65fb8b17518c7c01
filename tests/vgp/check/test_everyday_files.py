"""Files that people write around a request: each holds the same impossible one, and each way of checking finds it."""

import json

import pytest

from vgp.check.checker import check
from vgp.check.fix import Options, fixes

FIELDS = "machine-type=a2-highgpu-1g,accelerator-type=NVIDIA_TESLA_A100,accelerator-count=2"
LINE = f"gcloud ai custom-jobs create --region=us-central1 --display-name=x --worker-pool-spec={FIELDS}"
WORDS = LINE.split()
MACHINE = {"machineType": "a2-highgpu-1g", "acceleratorType": "NVIDIA_TESLA_A100", "acceleratorCount": 2}
POOL = {"machineSpec": MACHINE, "replicaCount": 1, "containerSpec": {"imageUri": "us-docker.pkg.dev/p/i:1"}}
JOB = {"displayName": "x", "jobSpec": {"workerPoolSpecs": [POOL]}}
SERVING = {"machineSpec": MACHINE | {"acceleratorCount": 3}}
SNAKE = "'machine_type': 'a2-highgpu-1g', 'accelerator_type': 'NVIDIA_TESLA_A100'"
CONTAINER = "'container_spec': {'image_uri': 'us-docker.pkg.dev/p/i:1'}"
RUN = "aiplatform.CustomJob(display_name='x', worker_pool_specs=[pool], staging_bucket='gs://b').run()\n"
EXEC = 'resource "null_resource" "x" {{\n  provisioner "local-exec" {{\n    command = {}\n  }}\n}}\n'


def notebook(*cells: str) -> str:
    return json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": cell} for cell in cells]})


FILES = {
    "workflow.yml": f"jobs:\n  a:\n    steps:\n    - run: |\n        set -x\n        {LINE}\n",
    "folded.yml": "jobs:\n- run: >\n    " + LINE.replace(" --worker", "\n    --worker") + "\n",
    "gitlab.yml": f"train:\n  script:\n  - {LINE}\n",
    "cloudbuild.yaml": json.dumps({"steps": [{"entrypoint": "gcloud", "args": WORDS[1:]}]}),
    "whole.yaml": json.dumps({"steps": [{"args": WORDS}]}),
    "cloudbuild.json": json.dumps({"steps": [{"args": ["bash", "-c", f"cd a\n{LINE}"]}]}),
    "Makefile": f"GPUS ?= 2\ntrain: build\n\t@{LINE.replace('count=2', 'count=$(GPUS)')}\n",
    "train.mk": f"train:\n\tfor i in 1; do echo $$i; done\n\t{LINE}\n",
    "Dockerfile.gpu": f"FROM google/cloud-sdk\nRUN {LINE}\n",
    "train.zsh": f"{LINE}\n",
    "train.bat": LINE.replace(" --worker", " ^\r\n  --worker") + "\r\n",
    "train.ps1": LINE.replace(" --worker", " `\n  --worker") + "\n",
    "values.yaml": json.dumps({"trainer": {"job": {"workerPoolSpecs": [POOL]}}}),
    "pools.yaml": json.dumps({"experiments": {"pools": [POOL]}}),
    "params.yaml": "train:\n  machine_type: a2-highgpu-1g\n  accelerator_type: NVIDIA_TESLA_A100\n"
    "  accelerator_count: 2\n",
    "kubernetes.yaml": json.dumps({"kind": "X", "spec": {"deployedModels": [{"dedicatedResources": SERVING}]}}),
    "body.yaml": json.dumps({"tasks": [{"body": json.dumps(JOB)}]}),
    "several.yaml": f"kind: ConfigMap\n---\n{json.dumps(JOB)}\n",
    "jobs.json": json.dumps([{"kind": "other"}, JOB]),
    "curl.sh": f"curl -X POST https://us-central1-aiplatform.googleapis.com/v1/x -d '{json.dumps(JOB)}'\n",
    "here.sh": f"cat > r.json <<EOF\n{json.dumps(JOB, indent=1)}\nEOF\n"
    "curl -d @r.json https://aiplatform.googleapis.com/v1\n",
    "stdin.sh": f"curl -d @- https://us-central1-aiplatform.googleapis.com/v1/x <<EOF\n{json.dumps(JOB)}\nEOF\n",
    "words.py": f"import subprocess\nsubprocess.run({WORDS})\n",
    "text.py": f"import os\nname = 'a'\ncommand = f'''{LINE.replace('=x', '={name}')}'''\nprint(command)\n"
    "os.system(command)\n",
    "split.py": f"import shlex\nrun(shlex.split('{LINE}'))\n",
    "steps.py": f"pool = {{}}\npool['machine_spec'] = {{{SNAKE}}}\npool['machine_spec']['accelerator_count'] = 2\n"
    f"pool['replica_count'] = 1\npool.update({{{CONTAINER}}})\n{RUN}",
    "union.py": f"BASE = {{{SNAKE}}}\nMACHINE = {{**BASE, 'accelerator_count': 2}}\n"
    f"pool = dict(machine_spec=MACHINE, replica_count=1) | {{{CONTAINER}}}\n{RUN}",
    "loop.py": "for i in range(2):\n    pools.append("
    f"{{'machine_spec': {{{SNAKE}, 'accelerator_count': 2}}, {CONTAINER}}})\n",
    "client.py": "from google.cloud import aiplatform_v1\npool = aiplatform_v1.WorkerPoolSpec()\n"
    "pool.machine_spec.machine_type = 'a2-highgpu-1g'\n"
    "pool.machine_spec.accelerator_type = aiplatform_v1.AcceleratorType.NVIDIA_TESLA_A100\n"
    "pool.machine_spec.accelerator_count = 2\n",
    "names.ipynb": notebook(
        "GPUS = 2\nREGION = 'us-central1'", f"!{LINE.replace('=2', '={GPUS}').replace('us-central1', '$REGION')}"
    ),
    "spec.ipynb": notebook(f"n = 2\nspec = f'{FIELDS[:-1]}{{n}}'", f"!{LINE.replace(FIELDS, '{spec}')}"),
    "exec.tf": EXEC.format(f"<<-EOT\n      {LINE}\n    EOT"),
    "inline.tf": EXEC.format(f'"{LINE}"'),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_an_impossible_request_is_found_named_skipping_others_and_in_a_folder(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name].encode())
    reports = [check([tmp_path / name]), check([tmp_path / name], skip_others=True), check([tmp_path])]
    assert [finding.rule for finding in reports[0].findings].count("GPU003") == 1 and not reports[0].unreadable
    assert [report.findings for report in reports] == [reports[0].findings] * 3


LINES = {"workflow.yml": 6, "gitlab.yml": 3, "Makefile": 3, "values.yaml": 1, "params.yaml": 4, "words.py": 2,
         "text.py": 3, "exec.tf": 4, "here.sh": 10, "client.py": 5}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_the_finding_has_the_line_of_the_command_or_the_field(tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    (finding,) = [each for each in check([tmp_path / name]).findings if each.rule == "GPU003"]
    assert finding.line == LINES[name]


OTHERS = {
    "schema.json": json.dumps({"schemas": {"X": {"properties": {"workerPoolSpecs": {"type": "array"}}}}}),
    "usage.py": f'"""Usage: {LINE}"""\nprint("{LINE}")\nparser.add_argument("--x", help="{LINE}")\n',
    "docs.yaml": "description: how gcloud deploys a custom-jobs create request\n",
    "echo.yml": f"jobs:\n- run: echo '{LINE}'\n",
    "node_pool.yaml": "machineType: n1-standard-4\nguestAccelerators: [{acceleratorType: nvidia-tesla-t4}]\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_text_about_requests_is_none(tmp_path, name):
    (tmp_path / name).write_text(OTHERS[name])
    report = check([tmp_path])
    assert not report.findings and not report.steps and report.exit_code == 0


def test_a_change_of_a_dictionary_by_way_of_the_one_around_it_makes_the_machine_unknown(tmp_path):
    pool = f"{{'machine_spec': {{'machine_type': 'n1-standard-4'}}, {CONTAINER}}}"
    update = "['worker_pool_specs'][0]['machine_spec'].update({'accelerator_type': 'NVIDIA_TESLA_K80'})"
    text = f"c = {{tfx.ARGS: {{'worker_pool_specs': [{pool}]}}}}\nif gpu:\n    c[tfx.ARGS]{update}\n"
    (tmp_path / "tfx.py").write_text(text)
    messages = [each.message for each in check([tmp_path]).findings]
    assert any("acceleratorType is not checkable" in message for message in messages)


def test_a_request_inside_another_document_is_fixed_in_place(tmp_path):
    (tmp_path / "values.yaml").write_text(FILES["params.yaml"])
    (fix,) = fixes([str(tmp_path / "values.yaml")], Options(regions=["us-central1"]))
    fix.write()
    assert not check([tmp_path], regions=["us-central1"]).errors


LARGE = {
    "commands.yml": "jobs:\n" + f"- run: {LINE}\n" * 1_001,
    "posts.sh": "# aiplatform.googleapis.com machineSpec\n" + "curl -d '{" * 20_000,
    "changes.py": "d = {}\n"
    + "".join(f"d['k{at}'] = {{'a': d}}\n" for at in range(3_000))
    + RUN.replace("pool]", "d]"),
    "calls.py": "import os\n" + "".join(f"os.system('{LINE} #{at}')\n" for at in range(1_001)),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_exceeds_a_budget_is_a_finding(tmp_path, name):
    (tmp_path / name).write_text(LARGE[name])
    report = check([tmp_path])
    assert report.exit_code == 2 and "GPU031" in {finding.rule for finding in report.findings}


def test_a_page_is_checked_if_it_is_named_and_its_shell_blocks_only(tmp_path):
    wrong = LINE.replace("count=2", "count=8")
    page = f"# Page\n\n    {wrong}\n\n````python\n```bash\n{wrong}\n```\n````\n\n{wrong}\n\n```console\n$ {LINE}\n```\n"
    (tmp_path / "page.md").write_text(page)
    (tmp_path / "other.md").write_text("# No request\n\n```python\nprint(1)\n```\n")
    found = check([tmp_path / "page.md", tmp_path / "other.md"])
    assert [(finding.rule, finding.line) for finding in found.findings if finding.rule == "GPU003"] == [("GPU003", 14)]
    assert not check([tmp_path]).findings


def test_settings_are_checked_by_compile(tmp_path):
    (tmp_path / "pipelines.toml").write_text("[steps.train]\ncount = 3\n")
    (unreadable,) = check([tmp_path / "pipelines.toml"]).unreadable
    assert "vgp compile" in str(unreadable)
