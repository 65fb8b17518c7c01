import json

import pytest

from vgp.launch.capacity.step_run import StepRun

from .conftest import executor_input


def test_a_step_is_the_same_whatever_the_id_of_its_task():
    first, second = StepRun.read(executor_input(1234567)), StepRun.read(executor_input(7654321))
    assert first.control_folder("train") == second.control_folder("train")
    assert first.control_folder("train") == f"gs://test-bucket/runs/capacity/run-1/train-{first.inputs}"
    assert first.outputs != second.outputs
    assert first.gcp_resources == "/gcs/test-bucket/runs/123456789012/run-1/train_-1234567/gcp_resources"


def test_other_inputs_are_another_step():
    other = json.loads(executor_input())
    other["inputs"]["parameterValues"]["epochs"] = 4
    assert StepRun.read(json.dumps(other)).inputs != StepRun.read(executor_input()).inputs
    other["inputs"] = {"artifacts": {"data": {"artifacts": [{"uri": "gs://a/b"}]}}}
    moved = json.loads(json.dumps(other).replace("gs://a/b", "gs://a/c"))
    assert StepRun.read(json.dumps(other)).inputs != StepRun.read(json.dumps(moved)).inputs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "names no output below gs://"),
        ('{"outputs": {"outputFile": "/tmp/run/train/executor_output.json"}}', "runs only on Vertex AI"),
    ],
)
def test_what_is_no_executor_input_of_vertex_ai_is_refused_in_a_sentence(text, words):
    with pytest.raises(ValueError, match=words):
        StepRun.read(text)
