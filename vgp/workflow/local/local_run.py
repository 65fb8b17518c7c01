"""Runs a workflow on this machine: a child process runs kfp.local, then the proof compares the steps with the spec."""

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
from vgp.protocol.imports import python_variables
from vgp.settings import Repository, Settings
from vgp.workflow.compiling import source_commit, workflow_files
from vgp.workflow.compiling.compile_target import Local
from vgp.workflow.local import local_folder, portable, process, proof
from vgp.workflow.local.local_folder import Run
from vgp.workflow.local.process import Event, read_events
from vgp.workflow.local.proof import Step


@dataclass(frozen=True)
class Result:
    """The result of a run."""

    run: Run
    steps: Sequence[Step]

    @property
    def missing(self) -> list[Step]:
        return [step for step in self.steps if step.state == "missing"]

    @property
    def succeeded(self) -> bool:
        return not self.run.failed and not self.missing

    def as_json(self) -> JsonObject:
        """Returns the content of run.json."""
        return {
            "pipeline": self.run.workflow,
            "state": "succeeded" if self.succeeded else "failed",
            "folder": str(self.run.folder),
            "arguments": dict(self.run.arguments),
            "steps": [convert_step(self.run, step) for step in self.steps],
        }

    def describe_failure(self) -> str:
        """Returns a message about the failed step, with its last lines, or about the missing steps."""
        if self.run.failed:
            lines = "\n".join(f"  {line}" for line in self.run.last_lines)
            hints = f"log: {self.run.log}\nresume: {self.run.format_resume_command()}"
            return f"{self.run.failed} failed. The last lines of its output:\n{lines}\n{hints}"
        lines = "\n".join(f"  {step.name}: {step.why}" for step in self.missing)
        return f"kfp.local reported success, but these steps contradict their conditions:\n{lines}"


def convert_step(run: Run, step: Step) -> JsonObject:
    """Returns a step's row of run.json."""
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


def create_run(
    name: str,
    texts: Sequence[str],
    settings: Settings,
    out: Path,
    *,
    nproc: int | None = None,
    nodes: int | None = None,
) -> Run:
    """Checks a request and creates the folder of a new run.

    Args:
        name: The workflow.
        texts: Parameters as name=value.
        settings: The settings, with the commands of steps.
        out: The parent of the run's folder.
        nproc: Training processes of each node; None: one per GPU, or 1.
        nodes: Nodes of a command, all on this machine; None: 1.

    Raises:
        RequestError: the workflow, a parameter or the folder is invalid; nothing was written.
    """
    repository = settings.repository
    spec = workflow_files.compile_workflow(name, Local(settings), repository)
    _refuse_counts(spec, nproc, nodes)
    values = parse_arguments(spec.parameters, texts, partial(workflow_files.list_members, name, repository))
    values = workflow_files.expand_arguments(name, values, repository, Path.cwd())
    workflow_files.check_arguments(name, spec, {**values, **_find_registry(spec, values, out)}, repository)
    portable.refuse_unsupported(spec, out.absolute(), repository.root)
    return local_folder.create(out.absolute(), name, spec, values, repository, nproc, nodes)


def _find_registry(spec: PipelineSpec, values: JsonView, out: Path) -> dict[str, str]:
    """Returns the local registry as an argument for the check of the champion, or {} if the run does not use it."""
    registry = out.absolute().parent / "registry"
    is_default = uses_registry(spec, [""]) and not values.get("registry")
    return {"registry": str(registry)} if is_default and registry.is_dir() else {}


def resume_run(
    name: str, path: Path, repository: Repository, *, nproc: int | None = None, nodes: int | None = None
) -> Run:
    """Returns the run in a folder, to be resumed with its own parameters, commands and pins.

    The number of processes also stays unless `nproc` or `nodes` is given, because it changes the rounding of results.

    Raises:
        RequestError: the folder holds no run of this workflow.
    """
    run = local_folder.open_run(path, name, repository)
    run.nproc = run.nproc if nproc is None else nproc
    run.nodes = run.nodes if nodes is None else nodes
    _refuse_counts(run.spec, run.nproc, run.nodes)
    portable.refuse_unsupported(run.spec, run.folder, repository.root)
    local_folder.keep_pins(run)
    return run


def _refuse_counts(spec: PipelineSpec, nproc: int | None, nodes: int | None) -> None:
    if nproc is not None and nproc < 1:
        raise RequestError(f"--nproc {nproc}: at least 1 process is needed.")
    if nodes is not None and nodes < 1:
        raise RequestError(f"--nodes {nodes}: at least 1 node is needed.")
    if nodes is not None and nodes > 1 and not scripts(spec):
        raise RequestError(
            f"--nodes {nodes}: on this machine, only a step with a command ([steps.train] command in the settings) can "
            "simulate several nodes. Use --nproc for several processes."
        )


def execute_run(run: Run, report: Callable[[Event], None]) -> Result:
    """Runs every step, calls `report` with each event, and writes the result to run.json.

    Raises:
        WorkFailed: a signal stopped the run; every process was ended.
    """
    try:
        result = Result(run, _execute(run, report))
    except process.Interrupted as stop:
        message = f"stopped by {stop}; every process was ended.\nresume: {run.format_resume_command()}"
        with run.log.open("a", encoding="utf-8") as log:  # after a hang-up there is no terminal to print on
            log.write(f"{message}\n")
        raise WorkFailed(message, exit_code=128 + stop.signal_number) from None
    whole_files.write(run.folder / file_names.RUN, json.dumps(result.as_json(), indent=1) + "\n")
    return result


# ---- one start of a run: a child process that runs kfp.local, followed line by line, and the proof of what ran


_LAST_LINES = 20


def _execute(run: Run, report: Callable[[Event], None]) -> list[proof.Step]:
    """Runs the compiled pipeline in the run's folder and returns every task of the DAG with its proven state.

    Raises:
        RequestError: an argument is invalid.
        process.Interrupted: a signal of `process.STOPS` arrived; every process was ended.
    """
    check_arguments(run.spec.parameters, run.arguments)
    command = [sys.executable, "-m", "vgp.workflow.local.worker", str(run.folder), str(run.repository.root)]
    earlier = run.list_starts()
    with (
        _provide_python3(run) as path,
        run.log.open("a", encoding="utf-8") as log,
        process.start_group(command, {**_build_environment(run), "PATH": path}) as child,
    ):
        assert child.stdout
        for event in read_events(child.stdout, log.write):
            _record_event(run, event)
            report(event)
        failed = child.wait() != 0
    now = [start for start in run.list_starts() if start not in earlier]
    steps = proof.prove(run.spec, run.arguments, now, earlier)
    local_folder.link_outputs(run.folder, steps)
    if failed and not run.failed:  # kfp.local itself gave up, before or between the steps
        run.failed = "the run"
    return steps


def _build_environment(run: Run) -> dict[str, str]:
    return {
        **python_variables(),
        variables.CHECKPOINTS: str(run.folder / "checkpoints"),
        variables.PINS: str(run.folder / "pins"),
        variables.REGISTRY: str(run.registry),
        **({variables.COMMIT: sha} if (sha := source_commit.read_commit(run.repository.root).clean_sha) else {}),
        **({variables.NPROC: str(run.nproc)} if run.nproc else {}),
        **({variables.NODES: str(run.nodes)} if run.nodes else {}),
        "PYTHONUNBUFFERED": "1",
        # Text encodings must not depend on the terminal's locale.
        "PYTHONUTF8": "1",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }


@contextmanager
def _provide_python3(run: Run) -> Iterator[str]:
    """Yields a PATH on which `python3` runs steps by step.py in this Python, under whatever path it is installed.

    The user's commands find this Python as `python`, and the programs of its environment.
    """
    step, repository = Path(__file__).parent / "step.py", run.repository
    words = [sys.executable, str(step), str(repository.root), str(repository.folder)]
    # Files in /tmp may not be executable (noexec), so the run's folder is used, unless a colon in it would split PATH.
    place = None if os.pathsep in str(run.folder) else run.folder
    with tempfile.TemporaryDirectory(prefix=".", dir=place) as scratch:
        for name, started in (("python3", words), ("python", [sys.executable])):
            program = Path(scratch, name)
            program.write_text(f'#!/bin/sh\nexec {shlex.join(started)} "$@"\n', encoding="utf-8")
            program.chmod(0o700)
        yield os.pathsep.join([scratch, *portable.PLACES, os.environ.get("PATH", os.defpath)])


def _record_event(run: Run, event: Event) -> None:
    now = time.monotonic()
    match event.kind:
        case "started":
            run.seconds[event.step] = -now
            run.last_lines = run.last_lines if run.failed else []
        case "succeeded" | "failed":
            run.seconds[event.step] = run.seconds.get(event.step, -now) + now
            if event.kind == "failed" and not run.failed:  # independent steps and the exit task still run
                run.failed = event.step
        case "line" if not run.failed:
            run.last_lines = [*run.last_lines, event.text][-_LAST_LINES:]
