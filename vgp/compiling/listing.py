"""`pipelines list`: every pipeline with its description and parameters."""

from typing import Any

from rich.table import Table
from rich.text import Text

from vgp.compiling.spec_cache import specs
from vgp.settings import Repository
from vgp.spec.pipeline_spec import PipelineSpec
from vgp.text.figures import number
from vgp.text.table import table


def listing(repository: Repository) -> list[dict[str, Any]]:
    """Name, description, and parameters (name, type, default, description) of each pipeline."""
    return [_row(name, spec) for name, spec in sorted(specs(repository).items())]


def _row(name: str, spec: PipelineSpec) -> dict[str, Any]:
    parameters = [parameter.as_json() for _, parameter in sorted(spec.parameters.items())]
    return {"name": name, "description": spec.description, "parameters": parameters}


def workflows_table(rows: list[dict[str, Any]]) -> Table:
    lines: list[tuple[str | Text, ...]] = []
    for row in rows:
        lines.append((Text(row["name"], "bold"), "", "", row["description"]))
        for parameter in row["parameters"]:
            default = parameter["default"]
            shown = '""' if default == "" else number(default) if isinstance(default, float) else str(default)
            lines.append(("", parameter["name"], shown, parameter["description"]))
    return table(("pipeline", "parameter", "default", "what it is"), lines)
