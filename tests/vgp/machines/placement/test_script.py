"""What a step may say of a script of the user's own: each mistake is refused with the fix."""

import pytest
from pydantic import ValidationError

from vgp.machines.placement.request_parts import process_launcher
from vgp.machines.placement.step_request import Request

COMMAND = ["python", "train.py", "--epochs", "{epochs}"]


@pytest.mark.parametrize("launch", ["torchrun", "tensorflow", "jax", "plain", None])
def test_every_launch_takes_a_command(launch: str | None) -> None:
    asked = Request(command=COMMAND, launch=launch, machine="g2-standard-24", nodes=2)  # type: ignore[arg-type]
    assert asked.command == tuple(COMMAND) and asked.launched_by == (launch or "plain")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": "python 'my train.py' 3"}, r'a list of words: command = \["python", "my train.py", "3"\]'),
        ({"command": []}, "names no program"),
        ({"command": [" "]}, "names no program"),
        ({"command": ["a\0b"]}, "NUL"),
        ({"launch": "jax"}, "launch is for a command"),
        ({"parameter_server": {"count": 1}}, "parameter_server is for a command"),
        ({"command": COMMAND, "launch": "torchrn"}, "torchrun"),
        ({"command": COMMAND, "parameter_server": {"count": 1}}, "for launch = 'tensorflow', not for 'plain'"),
        ({"command": COMMAND, "launch": "tensorflow", "parameter_server": {"count": 0}}, "greater than or equal to 1"),
        ({"command": COMMAND, "launch": "jax", "reduction_server": {"count": 1}}, "not for 'jax'"),
        ({"command": ["torchrun", "train.py"], "launch": "torchrun"}, "torchrun in the command .* processes twice"),
        ({"image": "mine:latest"}, "is :latest"),
        ({"image": "-"}, "is no image"),
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
