"""`pipelines compile`: every pipeline to JSON for Vertex, checked before it is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from vgp import settings as settings_file
from vgp.check import cost
from vgp.check.check import check
from vgp.check.report import Report
from vgp.check.text import headline
from vgp.compiling import workflows
from vgp.compiling.vertex import Vertex
from vgp.documents.document import Document
from vgp.errors import RequestError
from vgp.placement.rules import PlacementError
from vgp.spec import strict
from vgp.spec.pipeline_spec import PipelineSpec
from vgp.text import files
from vgp.text.nearest import did_you_mean


@dataclass(frozen=True)
class Compiled:
    """A pipeline's spec for Vertex, with what the checker said of it."""

    name: str
    spec: PipelineSpec
    report: Report


def compile_all(
    names: Sequence[str],
    *,
    out: Path,
    settings: Path | None,
    max_usd: float | None,
    console: Console,
    environment: str | None = None,
) -> list[dict[str, Any]]:
    """Compiles, checks and writes the pipelines `names` (all if none) to `<out>/<name>.json`.

    Raises:
        RequestError: an unknown pipeline or none at all, wrong settings, a machine that cannot be, or a run that can
            cost more than `max_usd`. The spec in question is not written; the one from before stays.
    """
    loaded = settings_file.load(settings, environment=environment)
    everything = workflows.find(loaded.repository)
    if not everything and not names:
        raise RequestError(f"{loaded.workflows}/ holds no workflow yet: write a file with build(target) there.")
    paths = {name: out / f"{name}.json" for name in names or everything}
    made = [compiled(name, loaded, max_usd=max_usd, path=path) for name, path in paths.items()]
    results = [_written(each, paths[each.name], console) for each in made]
    if set(paths) == set(everything):
        _warn_of_unknown_steps(loaded, {row.step for each in made for row in each.report.steps}, console)
    return results


def _warn_of_unknown_steps(settings: settings_file.Settings, known: set[str], console: Console) -> None:
    """A misspelt step would otherwise run on a machine that nobody asked for."""
    for step in sorted(set(settings.steps) - known):
        text = f"warning: [steps.{step}] of the settings: no pipeline has this step. {did_you_mean(step, known)}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)


def compiled(
    name: str, settings: settings_file.Settings, *, max_usd: float | None = None, path: Path | None = None
) -> Compiled:
    """The pipeline `name`, compiled for Vertex and checked; findings name `path`.

    Raises:
        RequestError: an unknown pipeline, a machine that cannot be, or a run that can cost more than `max_usd`.
    """
    try:
        spec = workflows.compiled(name, Vertex(settings), settings.repository)
    except PlacementError as error:
        raise PlacementError(error.problem, f"{name}: {error.asked}") from None
    return Compiled(name, spec, checked(name, spec, settings, max_usd=max_usd, path=path))


def checked(
    name: str,
    spec: PipelineSpec,
    settings: settings_file.Settings,
    *,
    max_usd: float | None = None,
    path: Path | None = None,
) -> Report:
    """What the checker says of a spec, with its steps in the order in which they run.

    Raises:
        RequestError: the spec is none, has a machine that cannot be, or can cost more than `max_usd`.
    """
    strict.verify(spec)
    document = Document(str(path or f"{name}.json"), dict(spec.content), spec.text)
    report = check([document], regions=[settings.region])
    _refuse(name, report)
    cost.refuse_above(report.steps, max_usd)
    order = [step.name for step in spec.steps]
    report.steps.sort(key=lambda row: order.index(row.step) if row.step in order else len(order))
    return report


def _written(made: Compiled, path: Path, console: Console) -> dict[str, Any]:
    files.write(path, made.spec.text)
    console.print(f"[bold]{path}[/]  sha256:{made.spec.digest[:12]}", highlight=False)
    console.print(cost.steps_table(made.report.steps, width=console.width))
    for finding in made.report.of_severity("warning"):
        console.print(headline(finding), markup=False, soft_wrap=True)
    most = cost.as_json(made.report.steps)
    return {"name": made.name, "path": str(path), "sha256": made.spec.digest, **most, **made.report.as_json()}


def _refuse(name: str, report: Report) -> None:
    errors = report.of_severity("error")
    if errors:
        lines = [f"{headline(finding)}\n  {finding.suggestion}".rstrip() for finding in errors]
        raise RequestError(f"{name} cannot run as it is:\n" + "\n".join(lines))
