"""What a compiled pipeline means on this machine, where every step is a process in this environment."""

import itertools
import os
import shutil
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from vgp.base.errors import RequestError
from vgp.check.spec.container_settings import Script, scripts
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import placeholders
from vgp.protocol.placeholders import IMAGE
from vgp.workflow.compiling.entrypoint import EXECUTOR

#: Folders with the programs of this environment, which need not be the active one: torchrun, accelerate.
PLACES = (sysconfig.get_path("scripts"),)
_SCRIPTS = (".py", ".sh")


def refuse(spec: PipelineSpec, folder: Path, root: Path) -> None:
    """Raises RequestError: a step cannot run here, or the run's folder cannot be given to one.

    Args:
        spec: The pipeline, compiled for this machine.
        folder: That of the run.
        root: That of the repository, in which commands run.
    """
    if placeholders.within(str(folder)):
        raise RequestError(f"the folder {folder} {placeholders.RULE}")
    commands = scripts(spec)
    for step, script in commands.items():
        _refuse_command(step, script, root)
    for step, container in spec.containers.items():
        command = container.get("command", [])
        is_python = command[:1] == ["sh"] and any(EXECUTOR in word for word in command)
        if not is_python and step not in commands:
            raise RequestError(
                f"{step} is a container, {container['image']}; on this machine only Python steps and commands of "
                "pipelines.toml run. Start the pipeline on Vertex AI: vgp submit."
            )


def _refuse_command(step: str, script: Script, root: Path) -> None:
    """Raises RequestError: the program, or the script that it shall run, is not there."""
    own = "" if script.image == IMAGE else f" On this machine it runs in this environment, not in {script.image}."
    program = script.command[0]
    path = os.pathsep.join([*PLACES, os.environ.get("PATH", os.defpath)])
    known = program in ("python", "python3") or shutil.which(root / program if "/" in program else program, path=path)
    if not known:
        raise RequestError(f"[steps.{step}] command: there is no program {program!r} to start.{own}")
    for word in _files(script.command[1:]):
        if not (root / word).is_file():
            raise RequestError(f"[steps.{step}] command: there is no file {word!r} in {root}, where commands run.{own}")


def _files(words: Sequence[str]) -> list[str]:
    """The script that a program is given to run: the first word that is no option, if it looks like one."""
    options = list(itertools.takewhile(lambda word: word.startswith("-"), words))
    first = next(iter(words[len(options) :]), "")
    is_file = first.endswith(_SCRIPTS) and "{" not in first and not {"-c", "-m"} & set(options)
    return [first] if is_file else []


def notes(spec: PipelineSpec) -> list[str]:
    """A line for each step that has another image on Vertex AI than the other steps."""
    return [
        f"note: {step} runs in this environment, not in its own image {container['image']}."
        for step, container in spec.containers.items()
        if container["image"] != IMAGE
    ]
