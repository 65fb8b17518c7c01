"""`pipelines run`: a pipeline on this machine, from request to result."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from vgp.compiling import workflows
from vgp.compiling.target import Local
from vgp.errors import RequestError, WorkFailed
from vgp.local import display, portable, process, proof
from vgp.local import execution as local
from vgp.settings import Repository
from vgp.spec import arguments, placeholders
from vgp.spec.pipeline_spec import PipelineSpec
from vgp.text.printable import printable


def run(
    name: str,
    settings: Sequence[str],
    *,
    repository: Repository,
    out: Path,
    nproc: int | None,
    resume: Path | None,
    console: Console,
) -> dict[str, Any]:
    """Runs the pipeline `name` locally and returns its result, which also stands in run.json.

    Raises:
        RequestError: the pipeline, a parameter or the folder is wrong; nothing was started.
        WorkFailed: a step failed, or one that should have run did not, or it was told to stop.
    """
    if nproc is not None and nproc < 1:
        raise RequestError(f"--nproc {nproc}: at least 1 process is needed.")
    this = (
        _resumed(name, settings, repository, resume, nproc)
        if resume
        else _started(name, settings, repository, out, nproc)
    )
    spec = PipelineSpec.read(this.spec)
    console.print(f"[bold]{name}[/] -> {escape(printable(this.folder))}", highlight=False, soft_wrap=True)
    for line in portable.notes(spec):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    try:
        with display.Progress(console, [step.name for step in spec.steps]) as progress:
            steps = local.execute(this, progress)
    except process.Interrupted as stop:
        message = f"stopped by {stop}; every process was ended.\nresume: {this.resume_command()}"
        with (this.folder / "log.txt").open("a", encoding="utf-8") as log:  # a hang-up leaves no terminal to say it on
            log.write(f"{message}\n")
        raise WorkFailed(message, exit_code=128 + stop.signal_number) from None
    return _finish(this, steps, console)


def _started(name: str, settings: Sequence[str], repository: Repository, out: Path, nproc: int | None) -> local.Run:
    scratch = out.absolute()
    spec = workflows.compiled(name, Local(), repository)
    values = arguments.parsed(spec.parameters, settings)
    workflows.check(name, spec, values, repository)
    portable.refuse(spec, scratch)
    folder = local.new_folder(scratch, name)
    this = local.Run(folder, name, values, repository, nproc)
    this.spec.write_text(spec.text, encoding="utf-8")
    return this


def _resumed(name: str, settings: Sequence[str], repository: Repository, folder: Path, nproc: int | None) -> local.Run:
    if settings:
        raise RequestError("--resume goes on with the run's own parameters: leave out --set, or start a new run.")
    try:
        values = json.loads((folder / "arguments.json").read_text(encoding="utf-8"))
        spec = PipelineSpec.read(folder / "pipeline.json")
    except (OSError, ValueError):
        raise RequestError(f"--resume {folder} is not the folder of a run.") from None
    if spec.name != name:
        raise RequestError(f"--resume {folder} is a run of {spec.name}, not of {name}.")
    portable.refuse(spec, folder.resolve())
    return local.Run(folder.resolve(), name, values, repository, nproc)


def _finish(this: local.Run, steps: list[proof.Step], console: Console) -> dict[str, Any]:
    rows = [display.as_json(this, step) for step in steps]
    missing = [step for step in steps if step.state == "missing"]
    result = {
        "pipeline": this.pipeline,
        "state": "failed" if this.failed or missing else "succeeded",
        "folder": str(this.folder),
        "arguments": dict(this.arguments),
        "steps": rows,
    }
    (this.folder / "run.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    console.print(display.result_table(this, steps))
    for step in steps:
        if placeholders.within(step.parameters):
            console.print(f"warning: an output of {step.name} {placeholders.RULE}", markup=False, soft_wrap=True)
    if this.failed:
        raise WorkFailed(_failure(this), result=result)
    if missing:
        listed = "\n".join(f"  {step.name}: {step.why}" for step in missing)
        message = f"kfp.local reported success, but these steps should have run and did not:\n{listed}"
        raise WorkFailed(message, result=result)
    for page in sorted(this.folder.glob("*.html")):
        console.print(f"{page.stem}: {page.as_uri()}", highlight=False, soft_wrap=True)
    return result


def _failure(this: local.Run) -> str:
    words = "\n".join(f"  {line}" for line in this.last_words)
    log = this.folder / "log.txt"
    return f"{this.failed} failed. Its last words:\n{words}\nlog: {log}\nresume: {this.resume_command()}"
