"""The child process of a local run: kfp.local over a compiled spec, in a process group of its own.

    python -m vgp.workflow.local.worker FOLDER ROOT < PIPE

ROOT is that of the repository.

Ends itself and every process it started when the pipe is closed: the command that started it is gone.

A command runs in the repository's root, as people start it there, with the variables of the terminal: what Python is
told to import our steps by would hide the modules that lie beside a script.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vgp.check.spec import dag
from vgp.check.spec.container_settings import artifacts, read
from vgp.protocol import file_names
from vgp.protocol.imports import variables_of_ours
from vgp.workflow import kfp_package


def main(folder: str, root: str) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # kfp says for every step that machine settings have no effect here, and that its own modules are deprecated.
    warnings.simplefilter("ignore")
    kfp_package.load()
    from kfp import components, local
    from kfp.local.orchestrator import enhanced_dag_orchestrator as dags

    with open(f"{folder}/request.json", encoding="utf-8") as file:
        values = json.load(file)["arguments"]
    steps = f"{folder}/steps"
    # kfp.local writes this name, unquoted, over `python3` in shell scripts and in parameters: `python3` itself changes
    # nothing, and the path leads to the right one (vgp.workflow.local.local_run).
    sys.executable = "python3"
    # It reads what a step prints as text, and would fail the run at a byte that is none.
    subprocess.Popen = partial(subprocess.Popen, errors="backslashreplace")  # type: ignore[assignment, misc]
    serve_commands(root)
    dags.ConditionEvaluator.evaluate_condition = staticmethod(_holds)
    local.init(
        local.SubprocessRunner(use_venv=False), pipeline_root=steps, enable_caching=True, cache_root=f"{steps}/reuse"
    )
    pipeline = components.load_component_from_text(_named(folder))
    try:
        pipeline(**values)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _named(folder: str) -> str:
    """The spec with the folder's name as the name of the run: kfp.local would make another one at every start, which a
    registry's history would have and nobody could find.

    kfp.local takes a pipeline for the component of the same name, and would run that step alone: such a pipeline gets
    another name here.
    """
    from kfp import dsl

    name = json.dumps(Path(folder).name)[1:-1]
    text = (
        Path(folder, file_names.PIPELINE).read_text(encoding="utf-8").replace(dsl.PIPELINE_JOB_NAME_PLACEHOLDER, name)
    )
    spec = json.loads(text)
    body = spec.get("pipelineSpec", spec)
    while f"comp-{body['pipelineInfo']['name']}" in body["components"]:
        body["pipelineInfo"]["name"] += "-pipeline"
    return json.dumps(spec)


def _holds(condition: str, values: Any) -> bool:
    """As kfp.local decides, but parsed: it makes Python of the values, where a quote breaks or turns the branch."""
    from kfp.local.orchestrator.enhanced_dag_orchestrator import ConditionEvaluator

    names = dag.names(condition)
    known = {name: ConditionEvaluator._resolve_pipeline_channel(name, values) for name in names}
    return None not in known.values() and dag.evaluate_condition(condition, known)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGTERM)


def serve_commands(root: str) -> None:
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
    """The environment without what local_run.py added for imports."""
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
    path = Path(left["model"]).with_name(file_names.EXECUTOR_OUTPUT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"artifacts": written}), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
