"""A ladder in a compiled spec: the plan in the arguments of the container that climbs it.

python3 -m vgp.inside.capacity --plan JSON --executor_input {{$}}
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vgp.spec.dag import table
from vgp.spec.pipeline_spec import PipelineSpec

#: The program of the container.
PROGRAM = "vgp.inside.capacity"
_PLAN = "--plan"


def position(container: Mapping[str, Any]) -> int | None:
    """Where among the container's arguments the plan stands; None if it climbs no ladder."""
    command, arguments = _words(container.get("command")), _words(container.get("args"))
    if PROGRAM not in command or _PLAN not in arguments[:-1]:
        return None
    return arguments.index(_PLAN) + 1


def plan(container: Mapping[str, Any]) -> dict[str, Any] | None:
    """The plan with its shared texts where they belong; None if there is none that can be read."""
    at = position(container)
    try:
        value = json.loads(_words(container.get("args"))[at]) if at is not None else None
    except (ValueError, RecursionError):
        return None
    return restored(value) if isinstance(value, dict) else None


def restored(value: dict[str, Any]) -> dict[str, Any]:
    """A plan with each mark of a shared text replaced by the text (vgp/inside/capacity/plan.py writes them)."""
    texts = value.get("texts")
    marks = {f"@text {number}@": text for number, text in enumerate(texts)} if isinstance(texts, list) else {}
    return {name: _replaced(part, marks) for name, part in value.items() if name != "texts"}


def first_container(container: Mapping[str, Any]) -> dict[str, Any] | None:
    """The training container of the first rung, as each rung has it but for image and env; None if there is none."""
    told = plan(container)
    try:
        found = told["rungs"][0]["job"]["jobSpec"]["workerPoolSpecs"][0]["containerSpec"] if told else None
    except (KeyError, IndexError, TypeError):
        return None
    return found if isinstance(found, dict) else None


def worlds(spec: PipelineSpec) -> dict[str, tuple[int, ...]]:
    """The GPUs of every rung of the steps with ladders, all machines together, by the names of their components."""
    plans = {name: plan(table(spec.executor(component), "container")) for name, component in spec.components.items()}
    return {
        name.removeprefix("comp-"): tuple(_gpus(rung) for rung in told.get("rungs", ()) if isinstance(rung, dict))
        for name, told in plans.items()
        if told
    }


def _gpus(rung: dict[str, Any]) -> int:
    """GPUs of the chief and the workers, on each of which a process trains; one where there are none."""
    pools = table(rung, "job", "jobSpec").get("workerPoolSpecs")
    trainers = pools[:2] if isinstance(pools, list) else []
    counts = [
        int(table(pool, "machineSpec").get("acceleratorCount") or 1) * int(pool.get("replicaCount") or 1)
        for pool in trainers
        if pool
    ]
    return max(1, sum(counts))


def _replaced(value: Any, marks: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return marks.get(value, value)
    if isinstance(value, dict):
        return {key: _replaced(inner, marks) for key, inner in value.items()}
    return [_replaced(inner, marks) for inner in value] if isinstance(value, list) else value


def _words(value: Any) -> Sequence[str]:
    return [word if isinstance(word, str) else "" for word in value] if isinstance(value, list) else []
