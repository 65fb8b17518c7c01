"""The child process of a local run: kfp.local over a compiled spec, in a process group of its own.

    python -m vgp.workflow.local.worker FOLDER ROOT < PIPE

ROOT is that of the repository.

Ends itself and every process it started when the pipe is closed: the command that started it is gone.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from vgp.check.spec import conditions
from vgp.workflow import kfp_package
from vgp.workflow.local import local_script


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
    # nothing, and the path leads to the right one (vgp.workflow.local.execution).
    sys.executable = "python3"
    # It reads what a step prints as text, and would fail the run at a byte that is none.
    subprocess.Popen = partial(subprocess.Popen, errors="backslashreplace")  # type: ignore[assignment, misc]
    local_script.serve(root)
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
    text = Path(folder, "pipeline.json").read_text(encoding="utf-8").replace(dsl.PIPELINE_JOB_NAME_PLACEHOLDER, name)
    spec = json.loads(text)
    body = spec.get("pipelineSpec", spec)
    while f"comp-{body['pipelineInfo']['name']}" in body["components"]:
        body["pipelineInfo"]["name"] += "-pipeline"
    return json.dumps(spec)


def _holds(condition: str, values: Any) -> bool:
    """As kfp.local decides, but parsed: it makes Python of the values, where a quote breaks or turns the branch."""
    from kfp.local.orchestrator.enhanced_dag_orchestrator import ConditionEvaluator

    names = conditions.names(condition)
    known = {name: ConditionEvaluator._resolve_pipeline_channel(name, values) for name in names}
    return None not in known.values() and conditions.holds(condition, known)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.killpg(0, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
