"""Legacy `hyperparameters` -> studySpec and trial counts of a HyperparameterTuningJob."""

import math
from dataclasses import replace
from typing import Any

from vgp.base.documents.node import Node, placeholder, whole_number
from vgp.check.convert.conversion import text_of
from vgp.check.convert.legacy_pools import LegacyInput

_ALGORITHMS = ("GRID_SEARCH", "RANDOM_SEARCH")
_TRIALS = {
    "maxTrials": "maxTrialCount",
    "maxParallelTrials": "parallelTrialCount",
    "maxFailedTrials": "maxFailedTrialCount",
}
_LOST = {
    "resumePreviousJobId": "tuning jobs of Vertex AI cannot go on from another one",
    "enableTrialEarlyStopping": "choose studySpec.medianAutomatedStoppingSpec if trials report measurements",
}


def tuning(legacy: LegacyInput, spec: Node) -> dict[str, Any]:
    """studySpec and trial counts."""
    study = {"metrics": [_metric(legacy, spec)], "parameters": _parameters(legacy, spec), **_algorithm(legacy, spec)}
    trials = _trials(legacy, spec)
    for name, why in _LOST.items():
        if legacy.take(spec.get(name)).value is not None:
            legacy.result.dropped(f"hyperparameters.{name}", why)
    return {"studySpec": study, **trials}


def _metric(legacy: LegacyInput, spec: Node) -> dict[str, Any]:
    name, goal = legacy.take(spec.get("hyperparameterMetricTag")), legacy.take(spec.get("goal"))
    metric = legacy.reader.text(name, "hyperparameterMetricTag") or "training/hptuning/metric"
    direction = legacy.reader.text(goal, "goal") or "MAXIMIZE"
    legacy.result.became("hyperparameters.goal", f"studySpec.metrics[0].goal: {direction}")
    text = f"studySpec.metrics[0].metricId: {metric}; report it with cloudml-hypertune"
    legacy.result.became("hyperparameters.hyperparameterMetricTag", text)
    return {"metricId": metric, "goal": direction}


def _parameters(legacy: LegacyInput, spec: Node) -> list[dict[str, Any]]:
    nodes = list(spec.get("params").items())
    parameters = [_parameter(legacy, node) for node in nodes]
    for index, node in enumerate(nodes):
        if node.get("scaleType").value == "NONE":
            legacy.result.became(f"hyperparameters.params[{index}].scaleType", "left out: NONE is the default")
    legacy.result.became("hyperparameters.params", "studySpec.parameters")
    return parameters


def _algorithm(legacy: LegacyInput, spec: Node) -> dict[str, Any]:
    algorithm = legacy.take(spec.get("algorithm")).text()
    if algorithm in _ALGORITHMS:
        legacy.result.became("hyperparameters.algorithm", "studySpec.algorithm")
        return {"algorithm": algorithm}
    if algorithm:
        text = f"{algorithm}: left to Vertex AI's default, Bayesian optimization"
        legacy.result.dropped("hyperparameters.algorithm", text)
    return {}


def _trials(legacy: LegacyInput, spec: Node) -> dict[str, int]:
    """Legacy defaults: 1 trial, 1 at a time."""
    trials = {"maxTrialCount": 1, "parallelTrialCount": 1}
    for name, target in _TRIALS.items():
        number = legacy.reader.number(legacy.take(spec.get(name)), name)
        if number is not None:
            trials[target] = number
            legacy.result.became(f"hyperparameters.{name}", target)
    return trials


def _parameter(legacy: LegacyInput, node: Node) -> dict[str, Any]:
    kind, scale = legacy.take(node.get("type")), legacy.take(node.get("scaleType")).text()
    result: dict[str, Any] = {"parameterId": str(_needed(legacy, node, "parameterName"))}
    match legacy.reader.text(kind, "type"):
        case "INTEGER":
            result["integerValueSpec"] = {
                name: str(_number(legacy, node.get(name), _needed(legacy, node, name), name, is_whole=True))
                for name in ("minValue", "maxValue")
            }
        case "DOUBLE":
            result["doubleValueSpec"] = {
                name: _number(legacy, node.get(name), _needed(legacy, node, name), name)
                for name in ("minValue", "maxValue")
            }
        case "CATEGORICAL":
            values = _list(legacy, node, "categoricalValues")
            result["categoricalValueSpec"] = {"values": [text_of(value) for value in values]}
        case "DISCRETE":
            values, at = _list(legacy, node, "discreteValues"), node.get("discreteValues")
            result["discreteValueSpec"] = {
                "values": [_number(legacy, at, value, "each of discreteValues") for value in values]
            }
        case _:
            kinds = "INTEGER, DOUBLE, CATEGORICAL or DISCRETE"
            legacy.reader.judgement.malformed(legacy.reader.step, kind, "type", kinds)
    return result | ({"scaleType": scale} if scale and scale != "NONE" else {})


def _list(legacy: LegacyInput, node: Node, name: str) -> list[Any]:
    """The values of a parameter, of which there may be one without a list around it."""
    value = _needed(legacy, node, name)
    if isinstance(value, str | int | float):
        legacy.result.became(name, f"a list of one: {value}")
        return [value]
    if not isinstance(value, list) or not value or any(isinstance(item, dict | list) for item in value):
        if not node.get(name).missing:
            legacy.reader.judgement.malformed(legacy.reader.step, node.get(name), name, "a list of values")
        return []
    return value


def _number(legacy: LegacyInput, at: Node, value: Any, name: str, *, is_whole: bool = False) -> Any:
    """The value as a number; that it is none is reported. What is to be filled in stays what it is."""
    if value is None or (isinstance(value, str) and placeholder(value)):
        return value
    whole = whole_number(value)
    try:
        number = whole if is_whole or isinstance(value, bool | dict | list) else float(value)
    except ValueError:
        number = None
    if number is None or number != number or abs(number) == math.inf:
        rule = "a whole number" if is_whole else "a number"
        legacy.reader.judgement.malformed(legacy.reader.step, replace(at, value=value), name, rule)
        return value
    return value if isinstance(value, int | float) and not is_whole else whole if whole is not None else number


def _needed(legacy: LegacyInput, node: Node, name: str) -> Any:
    """A field of a parameter, as it is; that it is missing is reported."""
    value = legacy.take(node.get(name))
    if value.missing:
        legacy.reader.judgement.malformed(legacy.reader.step, value, name, "given")
    return [item.value for item in value.items()] if isinstance(value.value, list) else value.value
