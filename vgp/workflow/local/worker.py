"""The child process of a local run: runs a compiled spec in kfp.local, in a process group of its own.

    python -m vgp.workflow.local.worker FOLDER ROOT < PIPE

FOLDER is the run's, ROOT the repository's. When the pipe closes because the parent has ended, the process ends itself
and every process that it started.

The user's commands run in the repository's root with the terminal's variables, as if started there by hand; the
variables by which steps import this library would hide modules beside a script.
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
from vgp.protocol.imports import python_variables
from vgp.workflow import kfp_package


def main(folder: str, root: str) -> int:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # kfp warns for every step that machine settings have no effect here, and that its own modules are deprecated.
    warnings.simplefilter("ignore")
    kfp_package.load()
    from kfp import components, local
    from kfp.local.orchestrator import enhanced_dag_orchestrator as dags

    with open(f"{folder}/request.json", encoding="utf-8") as file:
        values = json.load(file)["arguments"]
    steps = f"{folder}/steps"
    # kfp.local replaces `python3` in shell scripts and in parameters by this value, without quotes. The value `python3`
    # changes nothing, and PATH leads to the right program (vgp.workflow.local.local_run).
    sys.executable = "python3"
    # kfp.local decodes the output of steps, and would fail the run at an invalid byte.
    subprocess.Popen = partial(subprocess.Popen, errors="backslashreplace")  # type: ignore[assignment, misc]
    enable_commands(root)
    dags.ConditionEvaluator.evaluate_condition = staticmethod(_evaluate_condition)
    local.init(
        local.SubprocessRunner(use_venv=False), pipeline_root=steps, enable_caching=True, cache_root=f"{steps}/reuse"
    )
    pipeline = components.load_component_from_text(_read_spec(folder))
    try:
        pipeline(**values)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _read_spec(folder: str) -> str:
    """Returns the spec with the folder's name as the name of the run, by which the registry's history refers to it.

    kfp.local would otherwise invent another name at every start. It also confuses a pipeline with a component of equal
    name, and would run that step alone, so such a pipeline is renamed.
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


def _evaluate_condition(condition: str, values: Any) -> bool:
    """Evaluates a condition by a parser; kfp.local evaluates it as Python code, in which quotes in values do harm."""
    from kfp.local.orchestrator.enhanced_dag_orchestrator import ConditionEvaluator

    names = dag.names(condition)
    known = {name: ConditionEvaluator._resolve_pipeline_channel(name, values) for name in names}
    return None not in known.values() and dag.evaluate_condition(condition, known)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGTERM)


def enable_commands(root: str) -> None:
    """Makes kfp.local run the user's commands."""
    from kfp.local import subprocess_task_handler
    from kfp.local.status import Status

    class TaskHandler(subprocess_task_handler.SubprocessTaskHandler):  # type: ignore[misc]
        def validate_not_container_component(self, full_command: list[str]) -> None:
            """Accepts all containers, because vgp/workflow/local/portable.py has refused those that cannot run."""

        def run(self) -> Any:
            if read({"command": self.full_command[:4], "args": self.full_command[4:]}) is None:
                return super().run()
            code = _run_command(self.full_command, root, self.env_vars)
            if code == 0:
                _write_outputs(self.full_command)
            return Status.FAILURE if code else Status.SUCCESS

    subprocess_task_handler.SubprocessTaskHandler = TaskHandler


def _run_command(command: Sequence[str], root: str, variables: Mapping[str, str]) -> int:
    environment = {**_restore_environment(), **variables}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=root, env=environment, text=True, bufsize=1, **pipes) as process:  # type: ignore[call-overload]
        for line in process.stdout:
            print(line, end="")
        print()
        return int(process.wait())


def _restore_environment() -> dict[str, str]:
    """Returns the environment without the variables that local_run.py added for imports."""
    environment = dict(os.environ)
    del environment["PYTHONSAFEPATH"]
    added = python_variables()["PYTHONPATH"].rpartition(os.pathsep)[2]
    places = environment.pop("PYTHONPATH", "").split(os.pathsep)
    if places[-1] == added:
        places.pop()
    return {**environment, **({"PYTHONPATH": os.pathsep.join(places)} if places else {})}


def _write_outputs(command: Sequence[str]) -> None:
    """Writes the URIs of the outputs as kfp's executor does for a Python step; the file proves that the step ran."""
    uris = {name: uri for name, uri in artifacts(command).items() if name in ("model", "checkpoints")}
    outputs = {name: {"artifacts": [{"name": name, "uri": uri, "metadata": {}}]} for name, uri in uris.items()}
    path = Path(uris["model"]).with_name(file_names.EXECUTOR_OUTPUT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"artifacts": outputs}), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
