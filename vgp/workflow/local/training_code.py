"""Calls steps of this library in a process of their own, because commands do not import PyTorch."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.printable import printable
from vgp.protocol.imports import python_variables


def run_step_command(root: Path, arguments: Sequence[str], *, failure: str) -> JsonObject:
    """Runs `python -m vgp.steps ARGUMENTS` and returns the JSON object that it prints.

    Args:
        root: The repository with the tasks that the step may import.
        arguments: Arguments with --json; paths are relative to the current folder.
        failure: The message before the last lines of output if the command fails.

    Raises:
        ModuleNotFoundError: the extra `training` is not installed.
        RequestError: an argument is invalid.
        WorkFailed: the command failed.
    """
    if importlib.util.find_spec("numpy") is None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
    places = [str(root), python_variables()["PYTHONPATH"]]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    command = [sys.executable, "-P", "-m", "vgp.steps", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = printable(done.stderr).strip().splitlines() or [f"exit code {done.returncode}"]
        if done.returncode == RequestError.exit_code:
            raise RequestError("\n".join(lines).removeprefix("error: "))
        raise WorkFailed("\n".join([f"{failure}:", *lines[-5:]]))
    return dict(json.loads(done.stdout))
