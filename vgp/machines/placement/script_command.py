"""What a step may say of a script of the user's own that it runs: the command, how it is started, on which servers.

[steps.train]
command = ["python", "train.py", "--epochs", "{epochs}"]
launch = "torchrun"
"""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

#: torchrun: a process for each GPU, with its variables. The others start one for each node: tensorflow with TF_CONFIG,
#: jax with its coordinator, plain with no more than the numbers of the nodes.
Launch = Literal["torchrun", "tensorflow", "jax", "plain"]

#: Programs and modules that start a process for each GPU themselves.
_LAUNCHERS = frozenset({"torchrun", "deepspeed", "mpirun", "mpiexec", "horovodrun"})
_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"}
)
_SHELL = re.compile(r"(?:.*/)?(?:ba|da|z)?sh")


class ParameterServer(BaseModel):
    """Machines that hold the variables of TensorFlow's ParameterServerStrategy; they run the same command."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    count: int = Field(ge=1)
    machine: str = "n1-highmem-8"


def _list(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(f"it is a list of words: command = {json.dumps(_words(value) or ['python', 'train.py'])}.")
    return value


def _startable(command: tuple[str, ...]) -> tuple[str, ...]:
    if not command or not command[0].strip():
        raise ValueError('names no program. Write its words: command = ["python", "train.py"].')
    if any("\0" in word for word in command):
        raise ValueError("no word of a command can hold the character NUL.")
    return command


Command = Annotated[tuple[str, ...], BeforeValidator(_list), AfterValidator(_startable)]


def process_launcher(command: Sequence[str]) -> str:
    """The program of a command that starts processes itself, such as torchrun; "" if there is none."""
    words = list(command)
    if _SHELL.fullmatch(words[0]):
        words = [inner for word in words for inner in (_words(word) if " " in word else [word])]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name = word.rpartition("/")[2]
        if name in _LAUNCHERS:
            return name
        if name == "accelerate" and following == "launch":
            return "accelerate launch"
        if word == "-m":
            return f"python -m {following}" if following in _MODULES else ""
        if word.endswith(".py"):
            return ""
    return ""


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
