"""What a step may use to prepare data, as settings have it and as the step reads it: two models of one text."""

import pytest
from pydantic import ValidationError

import vgp.base.engine_settings as step
from vgp.machines.placement import plain, request_parts
from vgp.machines.placement.request_parts import process_launcher
from vgp.machines.placement.step_request import Request


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (request_parts.BigQuery, step.BigQuery),
        (request_parts.Job, step.Dataflow),
        (request_parts.Engines, step.Engines),
    ],
)
def test_the_step_knows_every_key_and_has_the_same_defaults(ours, theirs):
    inner = {"bigquery", "dataflow"}
    assert ours.model_fields.keys() == theirs.model_fields.keys()
    assert ours().model_dump(exclude=inner) == theirs().model_dump(exclude=inner)


def test_the_step_reads_the_values_of_the_settings():
    asked = request_parts.Engines(
        memory_gb=12.5,
        bigquery=request_parts.BigQuery(project="my-project", location="EU", max_gb=500),
        dataflow=request_parts.Job(
            machine="n2-highmem-8", region="us-central1", temp="gs://b/dataflow", image="i@sha256:1"
        ),
    )
    read = step.engines(asked.environment())
    assert read.model_dump() == asked.model_dump()
    assert request_parts.Engines.model_validate_json(asked.environment()[plain.ENGINES_VARIABLE]) == asked


def test_who_asks_for_nothing_gets_no_variable():
    assert request_parts.Engines().environment() == {}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"memory_gb": 0}, "greater than 0"),
        ({"memory_gb": float("inf")}, "finite"),
        ({"bigquery": {"project": "123456"}}, "is a project number"),
        ({"bigquery": {"dataset": "p.d"}}, "is not a dataset"),
        ({"bigquery": {"location": "Europe"}}, "is not a location of BigQuery"),
        ({"bigquery": {"max_gb": 0}}, "greater than 0"),
        ({"dataflow": {"subnetwork": "default"}}, "is not a subnetwork"),
        ({"dataflow": {"region": "us-east1", "subnetwork": "regions/us-west1/subnetworks/a"}}, "in another region"),
        ({"dataflow": {"machine": "N2 standard"}}, "is not a machine type"),
        ({"dataflow": {"service_account": "me@example.com"}}, "is not a service account"),
        ({"dataflow": {"image": "mine:1"}}, "Extra inputs"),
        ({"env": {"PREPARE_ENGINES": "{}"}}, "is set by the keys memory_gb, bigquery and dataflow"),
    ],
)
def test_what_cannot_be_is_refused(asked, message):
    with pytest.raises(ValidationError, match=message):
        Request(**asked)


COMMAND = ["python", "train.py", "--epochs", "{epochs}"]


@pytest.mark.parametrize("launch", ["torchrun", "tensorflow", "jax", "plain", None])
def test_every_launch_takes_a_command(launch: str | None) -> None:
    asked = Request(command=COMMAND, launch=launch, machine="g2-standard-24", nodes=2)  # type: ignore[arg-type]
    assert asked.command == tuple(COMMAND) and asked.launch_method == (launch or "plain")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": "python 'my train.py' 3"}, r'a list of words: command = \["python", "my train.py", "3"\]'),
        ({"command": []}, "names no program"),
        ({"command": [" "]}, "names no program"),
        ({"command": ["a\0b"]}, "NUL"),
        ({"launch": "jax"}, "launch needs a command"),
        ({"parameter_server": {"count": 1}}, "parameter_server needs a command"),
        ({"command": COMMAND, "launch": "torchrn"}, "torchrun"),
        ({"command": COMMAND, "parameter_server": {"count": 1}}, "for launch = 'tensorflow', not for 'plain'"),
        ({"command": COMMAND, "launch": "tensorflow", "parameter_server": {"count": 0}}, "greater than or equal to 1"),
        ({"command": COMMAND, "launch": "jax", "reduction_server": {"count": 1}}, "not for 'jax'"),
        ({"command": ["torchrun", "train.py"], "launch": "torchrun"}, "torchrun in the command .* processes twice"),
        ({"command": ["horovodrun", "train.py"], "launch": "torchrun"}, "SSH.* DistributedDataParallel.*'plain'"),
        ({"image": "mine:latest"}, "is :latest"),
        ({"image": "-"}, "is not an image"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        Request(**fields)  # type: ignore[arg-type]


def test_an_empty_image_takes_away_that_of_a_weaker_place() -> None:
    assert Request(image="").image is None


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["torchrun", "--nproc-per-node", "2", "train.py"], "torchrun"),
        (["/opt/bin/torchrun", "train.py"], "torchrun"),
        (["accelerate", "launch", "train.py"], "accelerate launch"),
        (["env", "A=1", "deepspeed", "train.py"], "deepspeed"),
        (["python3", "-u", "-m", "torch.distributed.run", "train.py"], "python -m torch.distributed.run"),
        (["python", "-m", "torch.distributed.launch", "train.py"], "python -m torch.distributed.launch"),
        (["bash", "-c", "cd work && torchrun train.py"], "torchrun"),
        (["sh", "-c", "an unclosed ' torchrun x"], "torchrun"),
        (["accelerate", "test"], ""),
        (["python", "train.py", "--backend", "deepspeed"], ""),
        (["python", "-m", "work.train", "torchrun"], ""),
        (["./train.sh", "fast"], ""),
    ],
)  # fmt: skip
def test_programs_that_start_processes_themselves_are_known(command: list[str], program: str) -> None:
    assert process_launcher(command) == program
