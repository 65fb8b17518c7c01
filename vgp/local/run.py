"""A run on this machine, from request to result."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from vgp.compiling import workflows
from vgp.compiling.target import Local
from vgp.errors import RequestError, WorkFailed
from vgp.local import execution, folder, portable, process
from vgp.local.folder import Run
from vgp.local.output import Event
from vgp.local.proof import Step
from vgp.settings import Repository
from vgp.spec import arguments
from vgp.text import files


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

    def as_json(self) -> dict[str, Any]:
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
        return f"kfp.local reported success, but these steps should have run and did not:\n{listed}"


def step_as_json(run: Run, step: Step) -> dict[str, Any]:
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


def started(name: str, texts: Sequence[str], repository: Repository, out: Path, nproc: int | None) -> Run:
    """A new run of the workflow `name` with the parameters `texts`, checked.

    Raises:
        RequestError: the workflow, a parameter or the folder is wrong; nothing was written.
    """
    _refuse(nproc)
    spec = workflows.compiled(name, Local(), repository)
    values = arguments.parsed(spec.parameters, texts, partial(workflows.members, name, repository))
    workflows.check(name, spec, values, repository)
    portable.refuse(spec, out.absolute())
    run = folder.new(out.absolute(), name, spec, values, repository)
    run.nproc = nproc
    return run


def resumed(name: str, path: Path, repository: Repository, nproc: int | None) -> Run:
    """The run in a folder of an earlier start, which goes on with its own parameters and pins.

    Raises:
        RequestError: the folder holds no run of this workflow.
    """
    _refuse(nproc)
    run = folder.existing(path, name, repository)
    portable.refuse(run.spec, run.folder)
    folder.go_on_with_pins(run)
    run.nproc = nproc
    return run


def _refuse(nproc: int | None) -> None:
    if nproc is not None and nproc < 1:
        raise RequestError(f"--nproc {nproc}: at least 1 process is needed.")


def finished(run: Run, tell: Callable[[Event], None]) -> Result:
    """Runs every step, and keeps the result in run.json.

    Raises:
        WorkFailed: it was told to stop; every process was ended.
    """
    try:
        result = Result(run, execution.execute(run, tell))
    except process.Interrupted as stop:
        message = f"stopped by {stop}; every process was ended.\nresume: {run.resume_command()}"
        with run.log.open("a", encoding="utf-8") as log:  # a hang-up leaves no terminal to say it on
            log.write(f"{message}\n")
        raise WorkFailed(message, exit_code=128 + stop.signal_number) from None
    files.write(run.folder / "run.json", json.dumps(result.as_json(), indent=1) + "\n")
    return result
