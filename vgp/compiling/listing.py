"""`pipelines list`: every pipeline with its description and parameters."""

from typing import Any

from rich.markup import escape
from rich.table import Table

from vgp.compiling.spec_cache import specs
from vgp.settings import Repository
from vgp.spec.pipeline_spec import PipelineSpec


def listing(repository: Repository) -> list[dict[str, Any]]:
    """Name, description, and parameters (name, type, default, description) of each pipeline."""
    return [_row(name, spec) for name, spec in sorted(specs(repository).items())]


def _row(name: str, spec: PipelineSpec) -> dict[str, Any]:
    parameters = [parameter.as_json() for _, parameter in sorted(spec.parameters.items())]
    return {"name": name, "description": spec.description, "parameters": parameters}


def table(rows: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("pipeline", "parameter", "default", "what it is"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(f"[bold]{row['name']}[/]", "", "", escape(row["description"]))
        for parameter in row["parameters"]:
            default = parameter["default"]
            shown = '""' if default == "" else str(default)
            table.add_row("", parameter["name"], escape(shown), escape(parameter["description"]))
    return table
