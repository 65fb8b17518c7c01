"""A run on this machine, from request to result: a child process runs kfp.local, and each start ends with the proof of
what ran.
"""

import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vgp.base import whole_files
from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.base.errors import RequestError, WorkFailed
from vgp.check.spec.container_settings import scripts
from vgp.check.spec.parameters import check_arguments, parse_arguments
from vgp.check.spec.pipeline_spec import PipelineSpec, uses_registry
from vgp.protocol import environment as variables
from vgp.protocol import file_names
from vgp.protocol.imports import variables_of_ours
from vgp.settings import Repository, Settings
from vgp.workflow.compiling import source_commit, workflow_files
from vgp.workflow.compiling.compile_target import Local
from vgp.workflow.local import local_folder, portable, process, proof
from vgp.workflow.local.local_folder import Run
from vgp.workflow.local.process import Event, events
from vgp.workflow.local.proof import Step


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    run: Run
    steps: Sequence[Step]

    @property
    def missing(self) -> list[Step]:
        return [step for step in self.steps if step.state == "missing"]

    @property
    def succeeded(self) -> bool:
        return not self.run.failed and not self.missing

    def as_json(self) -> JsonObject:
        """What stands in run.json."""
        return {
            "pipeline": self.run.workflow,
            "state": "succeeded" if self.succeeded else "failed",
            "folder": str(self.run.folder),
            "arguments": dict(self.run.arguments),
            "steps": [step_as_json(self.run, step) for step in self.steps],
        }

    def failure(self) -> str:
        """What went wrong, for a person."""
        if self.run.failed:
            lines = "\n".join(f"  {line}" for line in self.run.last_lines)
            way_on = f"log: {self.run.log}\nresume: {self.run.resume_command()}"
            return f"{self.run.failed} failed. The last lines of its output:\n{lines}\n{way_on}"
        listed = "\n".join(f"  {step.name}: {step.why}" for step in self.missing)
        return f"kfp.local reported success, but these steps did not do what their conditions ask for:\n{listed}"


def step_as_json(run: Run, step: Step) -> JsonObject:
    """A step's row of run.json."""
    task = step.name.rsplit("/", 1)[-1]
    failed = step.state == "missing" and task == run.failed
    waiting = step.state == "missing" and bool(run.failed) and not failed
    seconds = run.seconds.get(task) if step.state == "succeeded" or failed else None
    return {
        "step": step.name,
        "state": "failed" if failed else "waiting" if waiting else step.state,
        "seconds": None if seconds is None else round(seconds, 3),
        "parameters": dict(step.parameters),
        "artifacts": {name: uri.removeprefix(f"{run.folder}/") for name, uri in step.artifacts.items()},
    }


def started(
    name: str,
    texts: Sequence[str],
    settings: Settings,
    out: Path,
    *,
    nproc: int | None = None,
    nodes: int | None = None,
) -> Run:
    """A new run of the workflow `name` with the parameters `texts`, checked.

    Args:
        name: Of the workflow.
        texts: Parameters as name=value.
        settings: Commands of steps, and where the workflow is.
        out: The folder for the run's own.
        nproc: Training processes of each node; None: one per GPU, or 1.
        nodes: Nodes of a command, all on this machine; None: 1.

    Raises:
        RequestError: the workflow, a parameter or the folder is wrong; nothing was written.
    """
    repository = settings.repository
    spec = workflow_files.compiled(name, Local(settings), repository)
    _refuse(spec, nproc, nodes)
    values = parse_arguments(spec.parameters, texts, partial(workflow_files.members, name, repository))
    values = workflow_files.expanded(name, values, repository, Path.cwd())
    workflow_files.check(name, spec, {**values, **_registry(spec, values, out)}, repository)
    portable.refuse(spec, out.absolute(), repository.root)
    return local_folder.new(out.absolute(), name, spec, values, repository, nproc, nodes)


def _registry(spec: PipelineSpec, values: JsonView, out: Path) -> dict[str, str]:
    """The registry that the runs beside this one share, for the check of the champion; nothing where there is none."""
    beside = out.absolute().parent / "registry"
    is_open = uses_registry(spec, [""]) and not values.get("registry")
    return {"registry": str(beside)} if is_open and beside.is_dir() else {}


def resumed(
    name: str, path: Path, repository: Repository, *, nproc: int | None = None, nodes: int | None = None
) -> Run:
    """The run in a folder of an earlier start, which goes on with its own parameters, commands and pins.

    With as many processes, too, unless another number is given: the default mode rounds otherwise with another.

    Raises:
        RequestError: the folder holds no run of this workflow.
    """
    run = local_folder.existing(path, name, repository)
    run.nproc = run.nproc if nproc is None else nproc
    run.nodes = run.nodes if nodes is None else nodes
    _refuse(run.spec, run.nproc, run.nodes)
    portable.refuse(run.spec, run.folder, repository.root)
    local_folder.go_on(run)
    return run


def _refuse(spec: PipelineSpec, nproc: int | None, nodes: int | None) -> None:
    if nproc is not None and nproc < 1:
        raise RequestError(f"--nproc {nproc}: at least 1 process is needed.")
    if nodes is not None and nodes < 1:
        raise RequestError(f"--nodes {nodes}: at least 1 node is needed.")
    if nodes is not None and nodes > 1 and not scripts(spec):
        raise RequestError(
            f"--nodes {nodes}: only a command of a step ([steps.train] command in the settings) runs on several nodes "
            "here. Our own training has --nproc."
        )


def finished(run: Run, tell: Callable[[Event], None]) -> Result:
    """Runs every step, and keeps the result in run.json.

    Raises:
        WorkFailed: it was told to stop; every process was ended.
    """
    try:
        result = Result(run, _execute(run, tell))
    except process.Interrupted as stop:
        message = f"stopped by {stop}; every process was ended.\nresume: {run.resume_command()}"
        with run.log.open("a", encoding="utf-8") as log:  # a hang-up leaves no terminal to say it on
            log.write(f"{message}\n")
        raise WorkFailed(message, exit_code=128 + stop.signal_number) from None
    whole_files.write(run.folder / file_names.RUN, json.dumps(result.as_json(), indent=1) + "\n")
    return result


# ---- one start of a run: a child process that runs kfp.local, followed line by line, and the proof of what ran


_LAST_LINES = 20


def _execute(run: Run, tell: Callable[[Event], None]) -> list[proof.Step]:
    """Runs the compiled pipeline in the run's folder and returns every task of the DAG with its proven state.

    Raises:
        RequestError: an argument is none that the pipeline can take.
        process.Interrupted: a signal of `process.STOPS` arrived; every process was ended.
    """
    check_arguments(run.spec.parameters, run.arguments)
    command = [sys.executable, "-m", "vgp.workflow.local.worker", str(run.folder), str(run.repository.root)]
    earlier = run.starts()
    with (
        _python3(run) as path,
        run.log.open("a", encoding="utf-8") as log,
        process.group(command, {**_environment(run), "PATH": path}) as child,
    ):
        assert child.stdout
        for event in events(child.stdout, log.write):
            _note(run, event)
            tell(event)
        failed = child.wait() != 0
    now = [start for start in run.starts() if start not in earlier]
    steps = proof.prove(run.spec, run.arguments, now, earlier)
    local_folder.link(run.folder, steps)
    if failed and not run.failed:  # kfp.local itself gave up, before or between the steps
        run.failed = "the run"
    return steps


def _environment(run: Run) -> dict[str, str]:
    return {
        **variables_of_ours(),
        variables.CHECKPOINTS: str(run.folder / "checkpoints"),
        variables.PINS: str(run.folder / "pins"),
        variables.REGISTRY: str(run.registry),
        **({variables.COMMIT: sha} if (sha := source_commit.current(run.repository.root).of_the_code) else {}),
        **({variables.NPROC: str(run.nproc)} if run.nproc else {}),
        **({variables.NODES: str(run.nodes)} if run.nodes else {}),
        "PYTHONUNBUFFERED": "1",
        # What is read and printed does not depend on the terminal's language.
        "PYTHONUTF8": "1",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }


@contextmanager
def _python3(run: Run) -> Iterator[str]:
    """PATH with a `python3` that is this Python, which may be called otherwise and lie in a folder of any name.

    A step that it starts imports from the repository: step.py. A command of the user's finds `python`, and the programs
    of this environment.
    """
    step, repository = Path(__file__).parent / "step.py", run.repository
    words = [sys.executable, str(step), str(repository.root), str(repository.folder)]
    # Where nothing may be executed in /tmp, things may be where people work; a colon would part the path.
    place = None if os.pathsep in str(run.folder) else run.folder
    with tempfile.TemporaryDirectory(prefix=".", dir=place) as scratch:
        for name, started in (("python3", words), ("python", [sys.executable])):
            program = Path(scratch, name)
            program.write_text(f'#!/bin/sh\nexec {shlex.join(started)} "$@"\n', encoding="utf-8")
            program.chmod(0o700)
        yield os.pathsep.join([scratch, *portable.PLACES, os.environ.get("PATH", os.defpath)])


def _note(run: Run, event: Event) -> None:
    now = time.monotonic()
    match event.kind:
        case "started":
            run.seconds[event.step] = -now
            run.last_lines = run.last_lines if run.failed else []
        case "succeeded" | "failed":
            run.seconds[event.step] = run.seconds.get(event.step, -now) + now
            if event.kind == "failed" and not run.failed:  # independent steps and an exit handler run on
                run.failed = event.step
        case "line" if not run.failed:
            run.last_lines = [*run.last_lines, event.text][-_LAST_LINES:]
