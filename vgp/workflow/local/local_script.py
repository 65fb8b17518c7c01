"""Commands of the user's own in a local run. kfp.local starts Python steps only, and goes by what their executor wrote.

A command runs in the repository's root, as people start it there, with the variables of the terminal: what Python is
told to import our steps by would hide the modules that lie beside a script.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vgp.check.spec.container_settings import artifacts, read
from vgp.protocol.imports import variables_of_ours


def serve(root: str) -> None:
    """From now on kfp.local runs commands too."""
    from kfp.local import subprocess_task_handler
    from kfp.local.status import Status

    class TaskHandler(subprocess_task_handler.SubprocessTaskHandler):  # type: ignore[misc]
        def validate_not_container_component(self, full_command: list[str]) -> None:
            """Other containers were refused before anything started: vgp/workflow/local/portable.py."""

        def run(self) -> Any:
            if read({"command": self.full_command[:4], "args": self.full_command[4:]}) is None:
                return super().run()
            code = _followed(self.full_command, root, self.env_vars)
            if code == 0:
                _write_outputs(self.full_command)
            return Status.FAILURE if code else Status.SUCCESS

    subprocess_task_handler.SubprocessTaskHandler = TaskHandler


def _followed(command: Sequence[str], root: str, variables: Mapping[str, str]) -> int:
    environment = {**_of_the_terminal(), **variables}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=root, env=environment, text=True, bufsize=1, **pipes) as process:  # type: ignore[call-overload]
        for line in process.stdout:
            print(line, end="")
        print()
        return int(process.wait())


def _of_the_terminal() -> dict[str, str]:
    """The environment without what execution.py added for imports."""
    environment = dict(os.environ)
    del environment["PYTHONSAFEPATH"]
    added = variables_of_ours()["PYTHONPATH"].rpartition(os.pathsep)[2]
    places = environment.pop("PYTHONPATH", "").split(os.pathsep)
    if places[-1] == added:
        places.pop()
    return {**environment, **({"PYTHONPATH": os.pathsep.join(places)} if places else {})}


def _write_outputs(command: Sequence[str]) -> None:
    """What kfp's executor would have written: where the outputs are, which also proves that the step ran."""
    left = {name: uri for name, uri in artifacts(command).items() if name in ("model", "checkpoints")}
    written = {name: {"artifacts": [{"name": name, "uri": uri, "metadata": {}}]} for name, uri in left.items()}
    path = Path(left["model"]).with_name("executor_output.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"artifacts": written}), encoding="utf-8")
