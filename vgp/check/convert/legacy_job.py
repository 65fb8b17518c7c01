"""Converts a trainingInput of AI Platform into a custom job or, with `hyperparameters`, into a tuning job."""

import math
from dataclasses import replace
from typing import Any

from vgp.base.documents.document import Document
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Node, placeholder, whole_number
from vgp.check.convert.conversion import Conversion, text_of
from vgp.check.convert.legacy_pools import LegacyInput, worker_pools
from vgp.check.judgement import Judgement

_SCHEDULING = {"maxRunningTime": "timeout", "resilientToWorkerRestart": "restartJobOnWorkerRestart"}


def conversion(document: Document, judgement: Judgement) -> Conversion:
    """Converts the document's trainingInput; `judgement` collects its unreadable fields."""
    legacy = LegacyInput(document, judgement)
    legacy.result.job["workerPoolSpecs"] = worker_pools(legacy)
    _convert_outer_fields(legacy)
    _note_code(legacy)
    _convert_scheduling(legacy)
    _wrap_tuning(legacy)
    _convert_job(legacy)
    legacy.note_unconverted()
    legacy.result.findings = list(judgement.findings)
    return legacy.result


def _convert_outer_fields(legacy: LegacyInput) -> None:
    """Converts the fields that custom jobs share, the region and the output folder."""
    node, result = legacy.node, legacy.result
    for name in ("network", "serviceAccount", "enableWebAccess"):
        if node.get(name).value is not None:
            result.job[name] = legacy.take(node.get(name)).value
            result.note_change(name, name)
    result.region = legacy.text("region") or None
    if result.region:
        result.note_change("region", f"--region={result.region}, the location of the request")
    folder = legacy.text("jobDir")
    if folder:
        result.job["baseOutputDirectory"] = {"outputUriPrefix": folder}
        result.note_change(
            "jobDir", "baseOutputDirectory.outputUriPrefix, and --job-dir in args for code that reads it"
        )
    key = node.get("encryptionConfig").get("kmsKeyName")
    if key.text():
        result.kms_key = legacy.take(key).text()
        result.note_change("encryptionConfig.kmsKeyName", "encryptionSpec.kmsKeyName of the job: --kms-key")
    if node.get("useChiefInTfConfig").value is not None:
        legacy.take(node.get("useChiefInTfConfig"))
        result.note_dropped("useChiefInTfConfig", "Vertex AI always names the first replica chief")


def _note_code(legacy: LegacyInput) -> None:
    """Notes the fields that every pool uses, and the versions of a package's image."""
    packaged = any("pythonPackageSpec" in pool for pool in legacy.result.job["workerPoolSpecs"])
    places = {"args": "args of every pool"}
    if packaged:
        places |= {"packageUris": "pythonPackageSpec.packageUris", "pythonModule": "pythonPackageSpec.pythonModule"}
    for name, place in places.items():
        if legacy.node.get(name).value is not None:
            legacy.result.note_change(name, place)
    for name in ("runtimeVersion", "pythonVersion"):
        if legacy.node.get(name).value is None:
            continue
        legacy.take(legacy.node.get(name))
        if packaged:
            text = "executorImageUri: Google's TensorFlow image of that version; check that it is the right one"
            legacy.result.note_change(name, text)
        else:
            legacy.result.note_dropped(name, "the container image contains it")


def _convert_scheduling(legacy: LegacyInput) -> None:
    scheduling = legacy.reader.object(legacy.node.get("scheduling"), "scheduling")
    if scheduling is None:
        return
    values: JsonObject = {}
    for key in scheduling.value:
        node, field = legacy.take(scheduling.get(key)), f"scheduling.{key}"
        if key in _SCHEDULING:
            values[_SCHEDULING[key]] = node.value
            legacy.result.note_change(field, f"scheduling.{_SCHEDULING[key]}")
        elif key == "maxWaitTime":
            legacy.result.note_dropped(field, "only Flex-start waits for a set time: scheduling.maxWaitDuration")
        else:
            legacy.result.note_dropped(field, "custom jobs have no such field")
    if values:
        legacy.result.job["scheduling"] = values


def _wrap_tuning(legacy: LegacyInput) -> None:
    """Wraps the custom job as the trials of a tuning job, if there are hyperparameters."""
    spec = legacy.reader.object(legacy.node.get("hyperparameters"), "hyperparameters")
    if spec is not None:
        job = legacy.result.config
        legacy.result.config = {**tuning(legacy, spec), "trialJobSpec": job}


def _convert_job(legacy: LegacyInput) -> None:
    """Converts the fields outside the trainingInput."""
    whole, result = Node(legacy.data), legacy.result
    name = legacy.take(whole.get("jobId")).text()
    if name:
        result.display_name = name
        result.note_change("jobId", f"the display name {name}; Vertex AI gives the job its own id")
    result.project = legacy.take(whole.get("project")).text()
    labels = legacy.reader.object(whole.get("labels"), "labels")
    if labels is not None:
        legacy.take(labels)
        result.labels = {str(key): text_of(value) for key, value in labels.value.items()}
        result.note_change("labels", "labels of the job: --labels")


_ALGORITHMS = ("GRID_SEARCH", "RANDOM_SEARCH")
_TRIALS = {
    "maxTrials": "maxTrialCount",
    "maxParallelTrials": "parallelTrialCount",
    "maxFailedTrials": "maxFailedTrialCount",
}
_DROPPED = {
    "resumePreviousJobId": "tuning jobs of Vertex AI cannot resume another one",
    "enableTrialEarlyStopping": "choose studySpec.medianAutomatedStoppingSpec if trials report measurements",
}


def tuning(legacy: LegacyInput, spec: Node) -> JsonObject:
    """Returns studySpec and trial counts."""
    study = {
        "metrics": [_convert_metric(legacy, spec)],
        "parameters": _convert_parameters(legacy, spec),
        **_convert_algorithm(legacy, spec),
    }
    trials = _count_trials(legacy, spec)
    for name, why in _DROPPED.items():
        if legacy.take(spec.get(name)).value is not None:
            legacy.result.note_dropped(f"hyperparameters.{name}", why)
    return {"studySpec": study, **trials}


def _convert_metric(legacy: LegacyInput, spec: Node) -> JsonObject:
    name, goal = legacy.take(spec.get("hyperparameterMetricTag")), legacy.take(spec.get("goal"))
    metric = legacy.reader.text(name, "hyperparameterMetricTag") or "training/hptuning/metric"
    direction = legacy.reader.text(goal, "goal") or "MAXIMIZE"
    legacy.result.note_change("hyperparameters.goal", f"studySpec.metrics[0].goal: {direction}")
    text = f"studySpec.metrics[0].metricId: {metric}; report it with cloudml-hypertune"
    legacy.result.note_change("hyperparameters.hyperparameterMetricTag", text)
    return {"metricId": metric, "goal": direction}


def _convert_parameters(legacy: LegacyInput, spec: Node) -> list[JsonObject]:
    nodes = list(spec.get("params").items())
    parameters = [_convert_parameter(legacy, node) for node in nodes]
    for index, node in enumerate(nodes):
        if node.get("scaleType").value == "NONE":
            legacy.result.note_change(f"hyperparameters.params[{index}].scaleType", "left out: NONE is the default")
    legacy.result.note_change("hyperparameters.params", "studySpec.parameters")
    return parameters


def _convert_algorithm(legacy: LegacyInput, spec: Node) -> JsonObject:
    algorithm = legacy.take(spec.get("algorithm")).text()
    if algorithm in _ALGORITHMS:
        legacy.result.note_change("hyperparameters.algorithm", "studySpec.algorithm")
        return {"algorithm": algorithm}
    if algorithm:
        text = f"{algorithm}: left to Vertex AI's default, Bayesian optimization"
        legacy.result.note_dropped("hyperparameters.algorithm", text)
    return {}


def _count_trials(legacy: LegacyInput, spec: Node) -> dict[str, int]:
    """Returns the trial counts; by default 1 trial, 1 at a time, as in AI Platform."""
    trials = {"maxTrialCount": 1, "parallelTrialCount": 1}
    for name, target in _TRIALS.items():
        number = legacy.reader.number(legacy.take(spec.get(name)), name)
        if number is not None:
            trials[target] = number
            legacy.result.note_change(f"hyperparameters.{name}", target)
    return trials


def _convert_parameter(legacy: LegacyInput, node: Node) -> JsonObject:
    kind, scale = legacy.take(node.get("type")), legacy.take(node.get("scaleType")).text()
    result: JsonObject = {"parameterId": str(_read_required(legacy, node, "parameterName"))}
    match legacy.reader.text(kind, "type"):
        case "INTEGER":
            result["integerValueSpec"] = {
                name: str(_read_number(legacy, node.get(name), _read_required(legacy, node, name), name, is_whole=True))
                for name in ("minValue", "maxValue")
            }
        case "DOUBLE":
            result["doubleValueSpec"] = {
                name: _read_number(legacy, node.get(name), _read_required(legacy, node, name), name)
                for name in ("minValue", "maxValue")
            }
        case "CATEGORICAL":
            values = _list(legacy, node, "categoricalValues")
            result["categoricalValueSpec"] = {"values": [text_of(value) for value in values]}
        case "DISCRETE":
            values, at = _list(legacy, node, "discreteValues"), node.get("discreteValues")
            result["discreteValueSpec"] = {
                "values": [_read_number(legacy, at, value, "each of discreteValues") for value in values]
            }
        case _:
            kinds = "INTEGER, DOUBLE, CATEGORICAL or DISCRETE"
            legacy.reader.report_malformed(kind, "type", kinds)
    return result | ({"scaleType": scale} if scale and scale != "NONE" else {})


def _list(legacy: LegacyInput, node: Node, name: str) -> list[Any]:
    """Returns the values of a parameter; a single value may stand without a list."""
    value = _read_required(legacy, node, name)
    if isinstance(value, str | int | float):
        legacy.result.note_change(name, f"a list of one: {value}")
        return [value]
    if not isinstance(value, list) or not value or any(isinstance(item, dict | list) for item in value):
        if not node.get(name).missing:
            legacy.reader.report_malformed(node.get(name), name, "a list of values")
        return []
    return value


def _read_number(legacy: LegacyInput, at: Node, value: Any, name: str, *, is_whole: bool = False) -> Any:
    """Returns the value as a number, or reports that it is not one. A placeholder stays unchanged."""
    if value is None or (isinstance(value, str) and placeholder(value)):
        return value
    whole = whole_number(value)
    try:
        number = whole if is_whole or isinstance(value, bool | dict | list) else float(value)
    except ValueError:
        number = None
    if number is None or number != number or abs(number) == math.inf:
        rule = "a whole number" if is_whole else "a number"
        legacy.reader.report_malformed(replace(at, value=value), name, rule)
        return value
    return value if isinstance(value, int | float) and not is_whole else whole if whole is not None else number


def _read_required(legacy: LegacyInput, node: Node, name: str) -> Any:
    """Returns a required field of a parameter, or reports that it is missing."""
    value = legacy.take(node.get(name))
    if value.missing:
        legacy.reader.report_malformed(value, name, "given")
    return [item.value for item in value.items()] if isinstance(value.value, list) else value.value
