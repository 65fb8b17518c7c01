"""The steps of this library, asked in a process of their own: the desk imports none of them."""

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


def ask(root: Path, arguments: Sequence[str], *, failed: str) -> JsonObject:
    """The JSON object that `python -m vgp.steps ARGUMENTS` prints.

    Args:
        root: The repository whose tasks the steps may need.
        arguments: Of that command, --json among them; paths are relative to the current folder.
        failed: What to say before its last words if it fails.

    Raises:
        ModuleNotFoundError: the extra `training` is not installed.
        RequestError: the request is wrong.
        WorkFailed: it failed.
    """
    if importlib.util.find_spec("numpy") is None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
    places = [str(root), python_variables()["PYTHONPATH"]]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, places))}
    command = [sys.executable, "-P", "-m", "vgp.steps", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = printable(done.stderr).strip().splitlines() or [f"it ended with {done.returncode}"]
        if done.returncode == RequestError.exit_code:
            raise RequestError("\n".join(lines).removeprefix("error: "))
        raise WorkFailed("\n".join([f"{failed}:", *lines[-5:]]))
    return dict(json.loads(done.stdout))
