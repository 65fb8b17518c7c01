"""`pipelines compile`: every pipeline to JSON for Vertex, checked before it is written."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from pipelines import settings as settings_file
from pipelines import spec, strict
from pipelines.errors import RequestError
from pipelines.machines.check import Report, check
from pipelines.machines.documents import Document
from pipelines.machines.finding import StepRow
from pipelines.machines.placement import PlacementError
from pipelines.placing import Vertex


def compile_all(
    names: Sequence[str], *, out: Path, settings: Path | None, max_usd: float | None, console: Console
) -> list[dict[str, Any]]:
    """Compiles, checks and writes the pipelines `names` (all if none) to `<out>/<name>.json`.

    Raises:
        RequestError: an unknown pipeline, wrong settings, a machine that cannot be, or a run that can cost more than
            `max_usd`. The spec in question is not written; the one from before stays.
    """
    loaded = settings_file.load(settings)
    return [_compile(name, loaded, out, max_usd, console) for name in names or spec.NAMES]


def _compile(
    name: str, settings: settings_file.Settings, out: Path, max_usd: float | None, console: Console
) -> dict[str, Any]:
    try:
        compiled = spec.compiled(name, Vertex(settings))
    except PlacementError as error:
        raise RequestError(f"{name}: {error}") from None
    strict.verify(compiled)
    text, path = spec.as_text(compiled), out / f"{name}.json"
    found = check([Document(str(path), compiled, text)], regions=[settings.region])
    _refuse(name, found, max_usd)
    _write(path, text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    console.print(f"[bold]{path}[/]  sha256:{digest[:12]}", highlight=False)
    console.print(_table(found.steps))
    for finding in found.findings:
        if finding.severity == "warning":
            console.print(f"warning: {finding.step}: {finding.message}  [{finding.rule}]", markup=False, soft_wrap=True)
    return {"name": name, "path": str(path), "sha256": digest, "max_usd": _ceiling(found.steps), **found.as_json()}


def _refuse(name: str, found: Report, max_usd: float | None) -> None:
    errors = [finding for finding in found.findings if finding.severity == "error"]
    if errors:
        lines = [f"{each.step}: {each.message}  [{each.rule}]\n  {each.suggestion}".rstrip() for each in errors]
        raise RequestError(f"{name} cannot run as it is:\n" + "\n".join(lines))
    ceiling = _ceiling(found.steps)
    if max_usd is not None and (ceiling is None or ceiling > max_usd):
        amount = "an unknown amount" if ceiling is None else f"${ceiling:,.2f}"
        raise RequestError(
            f"{name}: a run can cost {amount}, and --max-usd is {max_usd:g}. Shorten a step's timeout, or take "
            "fewer or cheaper machines; a plain step has no timeout and counts with Vertex AI's 7 days."
        )


def _ceiling(steps: Sequence[StepRow]) -> float | None:
    """The most that one run can cost in US dollars; None if a price or a timeout is not known."""
    costs = [step.max_usd for step in steps]
    return None if None in costs else sum(cost for cost in costs if cost is not None)


def _table(steps: Sequence[StepRow]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("step", "machine", "GPUs", "nodes", "region", "provisioning"):
        table.add_column(column)
    for column in ("$/hour", "timeout", "at most $"):
        table.add_column(column, justify="right")
    for step in steps:
        gpus = f"{step.accelerator_count} x {step.accelerator_type}" if step.accelerator_count else "-"
        hourly = None if step.usd_per_hour is None else step.usd_per_hour * (step.replicas or 1)
        table.add_row(
            step.step, step.machine_type or "?", gpus, str(step.replicas or "?"), step.region or "any",
            step.strategy.lower(), _money(hourly), _hours(step.timeout_s), _money(step.max_usd),
        )  # fmt: skip
    table.add_row("", "", "", "", "", "", "", "", f"[bold]{_money(_ceiling(steps))}[/]")
    return table


def _money(usd: float | None) -> str:
    return "?" if usd is None else f"{usd:,.2f}"


def _hours(seconds: float | None) -> str:
    return "?" if seconds is None else f"{seconds / 3600:g} h"


def _write(path: Path, text: str) -> None:
    """All or nothing: a reader sees the old spec or the new one."""
    scratch = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(text)
        os.replace(scratch, path)
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror}.") from None
