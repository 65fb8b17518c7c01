"""The repository's training code, asked in a process of its own: the tool imports none of it."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.printable import printable


def ask(root: Path, arguments: Sequence[str], *, room: str, does: str, failed: str) -> dict[str, Any]:
    """The JSON object that `python -m vgp.steps ARGUMENTS` prints.

    Args:
        root: The repository whose training code is asked, whatever folder of that name lies in the current one.
        arguments: Of that command, --json among them; paths are relative to the current folder.
        room: The folder of the training code that knows the verb, and what that one `does`.
        failed: What to say before its last words if it fails.

    Raises:
        RequestError: the request is wrong, or the repository has no such code.
        WorkFailed: it failed.
    """
    if not (root / room).is_dir():
        raise RequestError(
            f"{root} has no {room}, which {does}. Run the command in a repository that has: "
            "pipelines update renews the training code of an older one."
        )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-P", "-m", "vgp.steps", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = printable(done.stderr).strip().splitlines() or [f"it ended with {done.returncode}"]
        if done.returncode == RequestError.exit_code:
            raise RequestError("\n".join(lines).removeprefix("error: "))
        raise WorkFailed("\n".join([f"{failed}:", *lines[-5:]]))
    return dict(json.loads(done.stdout))
