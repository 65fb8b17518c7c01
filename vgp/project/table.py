"""`pipelines new table`: a task.toml, proposed by the repository's training code in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vgp.errors import RequestError, WorkFailed
from vgp.text.printable import printable


def propose(root: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """What `python -m training table` decided and wrote.

    Args:
        root: The repository whose training code is asked.
        arguments: Of that verb; paths are relative to the current folder.

    Raises:
        RequestError: the table or an option is wrong, or the repository has no such code.
        WorkFailed: it could not be read.
    """
    if not (root / "training" / "tasks" / "table").is_dir():
        raise RequestError(
            f"{root} has no training/tasks/table, which looks at tables. Run the command in a repository that has: "
            "pipelines update renews the training code of an older one."
        )
    # The training code is that of the repository, whatever folder of that name lies in the current one.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))}
    command = [sys.executable, "-P", "-m", "training", "table", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = printable(done.stderr).strip().splitlines() or [f"it ended with {done.returncode}"]
        if done.returncode == RequestError.exit_code:
            raise RequestError("\n".join(lines).removeprefix("error: "))
        raise WorkFailed("\n".join(["the table could not be looked at:", *lines[-5:]]))
    return dict(json.loads(done.stdout))
