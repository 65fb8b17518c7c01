"""What the steps of a compiled spec are told that they may use to prepare data."""

from typing import Any

from pydantic import ValidationError

from vgp.check.spec.dag import Component, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.engine_request import VARIABLE, Engines


def engines_of_steps(spec: PipelineSpec) -> dict[str, Engines]:
    """By the names of the components; steps that are told nothing are left out."""
    every = {name.removeprefix("comp-"): _engines_of(spec, component) for name, component in spec.components.items()}
    return {name: engines for name, engines in every.items() if engines}


def bigquery_steps(spec: PipelineSpec) -> tuple[str, ...]:
    """The steps that may use BigQuery."""
    return tuple(step for step, engines in engines_of_steps(spec).items() if engines.bigquery)


def _engines_of(spec: PipelineSpec, component: Component) -> Engines | None:
    pools = table(component.content, "inputDefinitions", "parameters", "worker_pool_specs").get("defaultValue")
    if isinstance(pools, list) and pools:
        return _read_engines(table(pools[0], "container_spec").get("env"))
    return _read_engines(table(spec.executor(component), "container").get("env"))


def _read_engines(environment: Any) -> Engines | None:
    pairs = environment if isinstance(environment, list) else []
    values = [table(pair).get("value") for pair in pairs if table(pair).get("name") == VARIABLE]
    try:
        return Engines.model_validate_json(str(values[-1])) if values else None
    except ValidationError:
        return None
