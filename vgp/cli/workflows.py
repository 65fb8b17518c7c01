"""The verbs of workflows: list, compile, run."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgp.base.documents.bounded_text import refuse_address
from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.cli.options import (
    Environment,
    Json,
    Parameters,
    SettingsFile,
    WithParameters,
    Workflow,
    console,
    find_repository,
    import_lazily,
    load_settings,
    print_json,
    print_lines,
)

if TYPE_CHECKING:
    from rich.table import Table

with import_lazily():
    from vgp.base.text import figures, times
    from vgp.check import check_report, cost_bound
    from vgp.workflow.compiling import compile as compiling
    from vgp.workflow.compiling import spec_cache
    from vgp.workflow.local import display, local_run, portable

app = typer.Typer()

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Pipelines; default: all.")]


@app.command("list", epilog="Example: vgp list training")
def list_(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A pipeline, to list its parameters.")] = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """List the pipelines, or the parameters of one."""
    from vgp.settings.repository import NO_WORKFLOW, find_workflow

    repository = find_repository(settings)
    if name:
        find_workflow(name, repository)
    rows: list[JsonObject] = [
        {
            "name": pipeline,
            "description": spec.description,
            "parameters": [parameter.as_json() for _, parameter in sorted(spec.parameters.items())],
        }
        for pipeline, spec in sorted(spec_cache.load_specs(repository).items())
        if name in (None, pipeline)
    ]
    if as_json:
        print_json(rows)
    elif not rows:
        print_lines(NO_WORKFLOW.format(repository.folder))
    elif name:
        console().print(_render_parameters(rows[0]["parameters"]))
    else:
        console().print(figures.table(("pipeline", "meaning"), [(row["name"], row["description"]) for row in rows]))
        print_lines("Parameters of a pipeline: vgp list NAME")


def _render_parameters(parameters: list[JsonObject]) -> "Table":
    cells = []
    for parameter in parameters:
        default = parameter["default"]
        text = '""' if default == "" else figures.number(default) if isinstance(default, float) else str(default)
        cells.append((parameter["name"], text, parameter["description"]))
    return figures.table(("parameter", "default", "meaning"), cells)


@app.command("compile", epilog="Example: vgp compile training --out build")
def compile_(
    names: Names = None,
    out: Annotated[Path, typer.Option(help="Folder for the specs.")] = Path("build"),
    settings: SettingsFile = None,
    max_usd: Annotated[float | None, typer.Option(help="Fail if a run can cost more than this.")] = None,
    environment: Environment = None,
    as_json: Json = False,
) -> None:
    """Compile pipelines to the JSON that Vertex Pipelines runs, and check every machine in it.

    If a pipeline has an error, no file changes.
    """
    refuse_address(out, "--out")
    loaded = load_settings(settings, environment)
    pipelines = compiling.compile_all(names or (), loaded, out=out, max_usd=max_usd)
    results = [_report_pipeline(path, pipeline, as_json) for path, pipeline in pipelines.items()]
    steps = [row for pipeline in pipelines.values() for row in pipeline.report.steps]
    print_lines(*filter(None, [times.price_dates(cost_bound.price_dates(steps))]), stderr=as_json)
    notes = [
        *loaded.warnings(),
        *compiling.list_unknown_steps(loaded, pipelines.values()),
        *compiling.list_tagged_images(loaded),
    ]
    notes += [*compiling.list_world_sizes(pipelines.values()), *compiling.note_placeholder_image(loaded)]
    print_lines(*notes, stderr=as_json)
    if as_json:
        print_json(results)


def _report_pipeline(path: Path, compiled: "compiling.CompiledPipeline", as_json: bool) -> JsonObject:
    terminal, report = console(as_json), compiled.report
    print_lines(f"{path}  sha256:{compiled.spec.digest[:12]}", stderr=as_json)
    terminal.print(cost_bound.steps_table(report.steps, width=terminal.width, dated=False))
    print_lines(*map(check_report.headline, report.of_severity("warning")), stderr=as_json)
    most = cost_bound.as_json(report.steps)
    return {"name": compiled.name, "path": str(path), "sha256": compiled.spec.digest, **most, **report.as_json()}


@app.command(
    "run",
    cls=WithParameters,
    epilog='Example: vgp run training --set epochs=3 --set \'task_options={"train": "1-3"}\' --nproc 2',
)
def run_(
    name: Workflow,
    set_: Parameters = None,
    nproc: Annotated[
        int | None,
        typer.Option(
            help="Training processes; default: those of the run with --resume, else one per GPU, or 1.",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            help="Nodes of a step's own command, all on this machine; default: those of the run with --resume, else 1.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder in which the run gets its own folder.")] = Path("runs"),
    resume: Annotated[
        Path | None,
        typer.Option(help="Folder of a stopped or failed run to resume.", show_default=False),
    ] = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Run a pipeline on this machine: every step, on real data, with real training processes. No account, no Docker.

    Ctrl-C ends every process and prints the command that resumes from the last checkpoint.
    """
    refuse_address(resume or out, "--resume" if resume else "--out")
    if resume and set_:
        raise RequestError("--resume keeps the parameters of the run; omit --set, or start a new run.")
    if resume and environment:
        raise RequestError("--resume keeps the commands of the run; omit --env, or start a new run.")
    terminal, processes = console(as_json), {"nproc": nproc, "nodes": nodes}
    if resume:
        request = local_run.resume_run(name, resume, find_repository(settings), **processes)
    else:
        request = local_run.create_run(name, set_ or (), load_settings(settings, environment), out, **processes)
    print_lines(f"{name} -> {request.folder}", *portable.list_notes(request.spec), stderr=as_json)
    with display.Progress(terminal, [step.name for step in request.spec.steps]) as progress:
        result = local_run.execute_run(request, progress)
    display.show(result, terminal)
    if as_json:
        print_json(result.as_json())
    if not result.succeeded:
        raise WorkFailed(result.describe_failure())
