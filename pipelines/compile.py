"""`pipelines compile`: every pipeline to JSON for Vertex, checked before it is written."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines import proof, spec, strict
from pipelines import settings as settings_file
from pipelines.errors import RequestError
from pipelines.machines import cost
from pipelines.machines.check import Report, check
from pipelines.machines.documents import Document
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
    _refuse(name, found)
    cost.refuse_above(found.steps, max_usd)
    _write(path, text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    console.print(f"[bold]{path}[/]  sha256:{digest[:12]}", highlight=False)
    order = proof.names(compiled)
    found.steps.sort(key=lambda row: order.index(row.step) if row.step in order else len(order))
    console.print(cost.table(found.steps))
    for finding in found.findings:
        if finding.severity == "warning":
            console.print(f"warning: {finding.step}: {finding.message}  [{finding.rule}]", markup=False, soft_wrap=True)
    return {"name": name, "path": str(path), "sha256": digest, "max_usd": cost.most_usd(found.steps), **found.as_json()}


def _refuse(name: str, found: Report) -> None:
    errors = [finding for finding in found.findings if finding.severity == "error"]
    if errors:
        lines = [f"{each.step}: {each.message}  [{each.rule}]\n  {each.suggestion}".rstrip() for each in errors]
        raise RequestError(f"{name} cannot run as it is:\n" + "\n".join(lines))


def _write(path: Path, text: str) -> None:
    """All or nothing: a reader sees the old spec or the new one."""
    scratch = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(text)
        os.replace(scratch, path)
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror}.") from None
