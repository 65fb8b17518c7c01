"""Checks whether a compiled pipeline can run on this machine, where every step is a process in this environment."""

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

#: Folders with programs of this environment, such as torchrun, which PATH lacks if the environment is not active.
PLACES = (sysconfig.get_path("scripts"),)
_SCRIPTS = (".py", ".sh")


def refuse_unsupported(spec: PipelineSpec, folder: Path, root: Path) -> None:
    """Raises RequestError if a step cannot run here, or kfp would misread the path of the run's folder.

    Args:
        spec: The pipeline, compiled for this machine.
        folder: The folder of the run.
        root: The root of the repository, in which commands run.
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
                f"{step} is a container, {container['image']}, and this machine can run only Python steps and commands "
                "of pipelines.toml. Start the pipeline on Vertex AI: vgp submit."
            )


def _refuse_command(step: str, script: Script, root: Path) -> None:
    """Raises RequestError if the program of a command, or the script that it runs, does not exist."""
    note = "" if script.image == IMAGE else f" On this machine it runs in this environment, not in {script.image}."
    program = script.command[0]
    path = os.pathsep.join([*PLACES, os.environ.get("PATH", os.defpath)])
    exists = program in ("python", "python3") or shutil.which(root / program if "/" in program else program, path=path)
    if not exists:
        raise RequestError(f"[steps.{step}] command: there is no program {program!r}.{note}")
    for word in _find_script(script.command[1:]):
        if not (root / word).is_file():
            text = f"there is no file {word!r} in {root}, where commands run.{note}"
            raise RequestError(f"[steps.{step}] command: {text}")


def _find_script(words: Sequence[str]) -> list[str]:
    """Returns the script among a program's arguments: the first word after the options, if it ends in .py or .sh."""
    options = list(itertools.takewhile(lambda word: word.startswith("-"), words))
    first = next(iter(words[len(options) :]), "")
    is_file = first.endswith(_SCRIPTS) and "{" not in first and not {"-c", "-m"} & set(options)
    return [first] if is_file else []


def list_notes(spec: PipelineSpec) -> list[str]:
    """Returns a note for each step that has an image of its own on Vertex AI."""
    return [
        f"note: {step} runs in this environment, not in its own image {container['image']}."
        for step, container in spec.containers.items()
        if container["image"] != IMAGE
    ]
