"""Legacy `hyperparameters` -> studySpec and trial counts of a HyperparameterTuningJob."""

from typing import Any

from vgp.check.fields import Reader
from vgp.documents.field_path import FieldPath
from vgp.documents.node import Node

Notes = list[tuple[str, str, bool]]

_ALGORITHMS = {"GRID_SEARCH": "GRID_SEARCH", "RANDOM_SEARCH": "RANDOM_SEARCH"}
_TRIALS = {
    "maxTrials": "maxTrialCount",
    "maxParallelTrials": "parallelTrialCount",
    "maxFailedTrials": "maxFailedTrialCount",
}


def study(spec: Node, reader: Reader) -> tuple[dict[str, Any], dict[str, int], Notes, set[FieldPath]]:
    """(studySpec, trial counts, what each field became, where those stand). Legacy defaults: 1 trial, 1 at a time."""
    notes: Notes = []
    taken = {spec.get(name).path for name in ("goal", "hyperparameterMetricTag", *_TRIALS)}
    metric = reader.text(spec.get("hyperparameterMetricTag"), "hyperparameterMetricTag") or "training/hptuning/metric"
    goal = reader.text(spec.get("goal"), "goal") or "MAXIMIZE"
    notes.append(("goal", f"studySpec.metrics[0].goal: {goal}", False))
    notes.append(
        ("hyperparameterMetricTag", f"studySpec.metrics[0].metricId: {metric}; report it with cloudml-hypertune", False)
    )
    result: dict[str, Any] = {"metrics": [{"metricId": metric, "goal": goal}]}
    parameters = list(spec.get("params").items())
    result["parameters"] = [_parameter(parameter, reader, taken) for parameter in parameters]
    for index, parameter in enumerate(parameters):
        if parameter.get("scaleType").value == "NONE":
            notes.append((f"params[{index}].scaleType", "left out: NONE is the default", False))
    notes.append(("params", "studySpec.parameters", False))
    algorithm = spec.get("algorithm").text()
    if algorithm in _ALGORITHMS:
        result["algorithm"] = _ALGORITHMS[algorithm]
        notes.append(("algorithm", "studySpec.algorithm", False))
    elif algorithm:
        notes.append(("algorithm", f"{algorithm}: left to Vertex AI's default, Bayesian optimization", True))
    taken.add(spec.get("algorithm").path)
    trials = _trials(spec, reader, notes)
    for name, why in (
        ("resumePreviousJobId", "tuning jobs of Vertex AI cannot go on from another one"),
        ("enableTrialEarlyStopping", "choose studySpec.medianAutomatedStoppingSpec if trials report measurements"),
    ):
        if spec.get(name).value is not None:
            notes.append((name, why, True))
            taken.add(spec.get(name).path)
    return result, trials, notes, taken


def _trials(spec: Node, reader: Reader, notes: Notes) -> dict[str, int]:
    trials = {"maxTrialCount": 1, "parallelTrialCount": 1}
    for name, target in _TRIALS.items():
        number = reader.number(spec.get(name), name)
        if number is not None:
            trials[target] = number
            notes.append((name, target, False))
    return trials


def _parameter(node: Node, reader: Reader, taken: set[FieldPath]) -> dict[str, Any]:
    def take(name: str) -> Any:
        taken.add(node.get(name).path)
        value = node.get(name)
        if value.missing:
            reader.judgement.malformed(reader.step, value, name, "given")
        return [item.value for item in value.items()] if isinstance(value.value, list) else value.value

    kind = reader.text(node.get("type"), "type") or ""
    result: dict[str, Any] = {"parameterId": str(take("parameterName"))}
    taken |= {node.get("type").path, node.get("scaleType").path}
    if kind == "INTEGER":
        result["integerValueSpec"] = {"minValue": str(take("minValue")), "maxValue": str(take("maxValue"))}
    elif kind == "DOUBLE":
        result["doubleValueSpec"] = {"minValue": take("minValue"), "maxValue": take("maxValue")}
    elif kind == "CATEGORICAL":
        result["categoricalValueSpec"] = {"values": take("categoricalValues")}
    elif kind == "DISCRETE":
        result["discreteValueSpec"] = {"values": take("discreteValues")}
    else:
        reader.judgement.malformed(reader.step, node.get("type"), "type", "INTEGER, DOUBLE, CATEGORICAL or DISCRETE")
    scale = node.get("scaleType").text()
    if scale and scale != "NONE":
        result["scaleType"] = scale
    return result
