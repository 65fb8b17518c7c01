"""Converts a job of Vertex AI from any of its forms into a Conversion: the job, and a note on each field.

Forms: CustomJob and HyperparameterTuningJob, CustomJobSpec (the config of gcloud), worker pools of the SDK, the request
bodies {parent, customJob}; in camelCase or snake_case. Every field is in the job, in the command around it, or
in the notes.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from vgp.base.documents.bounded_text import FieldPath
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import whole_number
from vgp.check import api_object
from vgp.check.check_finding import Finding
from vgp.check.judgement import KNOWN
from vgp.check.sources.command_line import Note

_LOCATION = re.compile(r"projects/([^/]+)/locations/([^/]+)(?:/.*)?")


@dataclass
class Conversion:
    """A CustomJobSpec, or a tuning job around one, with the other fields of the request."""

    config: JsonObject
    notes: list[Note] = field(default_factory=list)
    region: str | None = None
    display_name: str | None = None
    kms_key: str | None = None
    project: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    #: Path of the CustomJobSpec in the input, such as jobSpec.
    spec_at: str = ""
    #: Unreadable fields of the input.
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_tuning(self) -> bool:
        return "trialJobSpec" in self.config

    @property
    def job(self) -> JsonObject:
        """Returns the CustomJobSpec: the config itself, or that of a trial."""
        spec: JsonObject = self.config["trialJobSpec"] if self.is_tuning else self.config
        return spec

    def note_change(self, name: str, text: str) -> None:
        self.notes.append(Note(name, text))

    def note_dropped(self, name: str, why: str) -> None:
        self.notes.append(Note(name, why, dropped=True))

    def read_location(self, name: str) -> bool:
        """Reads project and region from the beginning of a resource's name; returns False if it has none."""
        match = _LOCATION.fullmatch(name)
        if match is not None:
            self.project, self.region = self.project or match.group(1), self.region or match.group(2)
        return match is not None

    def body(self) -> JsonObject:
        """Returns the CustomJob or HyperparameterTuningJob for the REST API."""
        body: JsonObject = {"displayName": self.display_name or "training"}
        body |= self.config if self.is_tuning else {"jobSpec": self.config}
        body |= {"labels": self.labels} if self.labels else {}
        return body | ({"encryptionSpec": {"kmsKeyName": self.kms_key}} if self.kms_key else {})

    def command(self, path: str = "config.yaml") -> str:
        """Returns the gcloud command that reads the config."""
        verb = "hp-tuning-jobs" if self.is_tuning else "custom-jobs"
        words = ["gcloud", "ai", verb, "create", f"--region={self.region or 'REGION'}"]
        words += [f"--project={self.project}"] if self.project else []
        words += [f"--display-name={self.display_name or 'training'}", f"--config={path}"]
        counts = {"maxTrialCount": "max-trial-count", "parallelTrialCount": "parallel-trial-count"}
        words += [f"--{flag}={self.config[name]}" for name, flag in counts.items() if name in self.config]
        words += [f"--kms-key={self.kms_key}"] if self.kms_key else []
        words += [f"--labels={','.join(f'{key}={value}' for key, value in self.labels.items())}"] if self.labels else []
        return shlex.join(words)


def as_yaml(config: JsonObject) -> str:
    """Returns a config as YAML for gcloud."""
    return str(yaml.safe_dump(config, sort_keys=False, default_flow_style=False, width=1000))


def leaves(value: object, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yields the path of every value; a list of values counts as one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif value is not None:
        yield path


def text_of(value: object) -> str:
    """Returns a number or truth value as an argument of a command."""
    return str(value).lower() if isinstance(value, bool) else str(value)


SPEC = KNOWN["customJobSpec"]
_TUNING = ("studySpec", "maxTrialCount", "parallelTrialCount", "maxFailedTrialCount", "trialJobSpec")
#: Output fields that Vertex AI writes into a job.
_OUTPUT = (
    "state", "createTime", "startTime", "endTime", "updateTime", "error", "webAccessUris", "satisfiesPzs",
    "satisfiesPzi", "trials",
)  # fmt: skip
_ENVELOPES = ("customJob", "hyperparameterTuningJob", "trainingPipeline")
_KINDS = ("workerPoolSpecs", "jobSpec", "trialJobSpec", "trainingTaskInputs", "machineSpec")
_NUMBERS = ("replicaCount", "acceleratorCount", "bootDiskSizeGb", *_TUNING[1:4])
#: Lists that users may write as a single item.
_LISTS = ("values", "packageUris", "reservedIpRanges")
_SNAKE = re.compile(r"_([a-z0-9])")


def recognises(data: object) -> bool:
    """Whether the data is a job, or pools, that can be converted."""
    if isinstance(data, list):
        return api_object.is_pool_list(data)
    job = _unwrap_job(_convert_keys(data))
    return isinstance(job, dict) and any(name in job for name in _KINDS)


def conversion(data: object) -> Conversion:
    """Converts the job in the data."""
    result = Conversion({})
    job = _convert_keys(data, result)
    if isinstance(job, list):
        job = {"workerPoolSpecs": job}
    if "machineSpec" in job:
        job = {"workerPoolSpecs": [job]}
    at = next((name for name in _ENVELOPES if isinstance(job.get(name), dict)), "")
    if at:
        for name in job.keys() - {at}:
            if name == "parent" and result.read_location(str(job[name])):
                result.note_change(name, "project and region")
            else:
                result.note_dropped(name, "a request has no such field")
        job, at = job[at], f"{at}."
    _move_outer_fields(job, result, at)
    if "trialJobSpec" in job:
        result.config = {name: job.pop(name) for name in _TUNING if name in job}
        result.spec_at = f"{at}trialJobSpec"
        result.config["trialJobSpec"] = _convert_spec(result.config["trialJobSpec"], result)
        _drop_fields(job, result, at, "tuning jobs have no such field")
    elif "jobSpec" in job:
        result.spec_at = f"{at}jobSpec"
        result.config = _convert_spec(job.pop("jobSpec"), result)
        _drop_fields(job, result, at, "custom jobs have no such field")
    elif "trainingTaskInputs" in job:
        result.spec_at = f"{at}trainingTaskInputs"
        result.config = _convert_spec(job.pop("trainingTaskInputs"), result)
        _drop_fields(job, result, at, "a custom job only trains: it splits no dataset and uploads no model")
    else:
        result.config = _convert_spec(job, result)
    return result


def _unwrap_job(job: object) -> Any:
    if not isinstance(job, dict):
        return job
    return next((job[name] for name in _ENVELOPES if isinstance(job.get(name), dict)), job)


def _move_outer_fields(job: JsonObject, result: Conversion, at: str) -> None:
    """Moves the fields around the spec out of the job: name, place, labels, key."""
    result.display_name = job.pop("displayName", None)
    result.project, region = job.pop("project", result.project), job.pop("location", None)
    if region and not result.read_location(region):
        result.region = region
    labels = job.pop("labels", None)
    if isinstance(labels, dict):
        result.labels = {str(key): text_of(value) for key, value in labels.items()}
    elif labels is not None:
        result.note_dropped(f"{at}labels", "labels must be an object")
    encryption = job.pop("encryptionSpec", None)
    if isinstance(encryption, dict):
        result.kms_key = encryption.pop("kmsKeyName", None)
        for name in encryption:
            result.note_dropped(f"{at}encryptionSpec.{name}", "an encryptionSpec has only kmsKeyName")
    name = job.pop("name", None)
    if name is not None:
        place = " (its project and region are kept)" if result.read_location(str(name)) else ""
        result.note_dropped(f"{at}name", f"Vertex AI gives the new job its own{place}")


def _drop_fields(job: JsonObject, result: Conversion, at: str, why: str) -> None:
    for name in job:
        result.note_dropped(f"{at}{name}", "Vertex AI writes it" if name in _OUTPUT else why)


def _convert_spec(spec: object, result: Conversion) -> JsonObject:
    if not isinstance(spec, dict):
        result.note_dropped(result.spec_at, "it is not an object")
        return {}
    where = f"{result.spec_at}." if result.spec_at else ""
    pools = spec.get("workerPoolSpecs")
    if isinstance(pools, dict):
        spec["workerPoolSpecs"] = [pools]
        result.note_change(f"{where}workerPoolSpecs", "a list of one pool, because only gcloud accepts a mapping")
    for name in [name for name in spec if name not in SPEC]:
        why = "Vertex AI writes it" if name in _OUTPUT else "a CustomJobSpec has no such field"
        result.note_dropped(f"{where}{name}", why)
        del spec[name]
    return spec


def camel_case(key: str) -> str:
    return _SNAKE.sub(lambda match: match.group(1).upper(), key)


def _convert_keys(value: object, result: Conversion | None = None, path: str = "") -> Any:
    """Returns a copy with keys in camelCase, numbers as numbers, and arguments as texts. Keys of labels are content."""
    if isinstance(value, list):
        return [_convert_keys(item, result, f"{path}[{index}]") for index, item in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    fields: JsonObject = {}
    for key, inner in value.items():
        name = camel_case(str(key))
        where = f"{path}.{key}" if path else str(key)
        if name in fields and result is not None:
            result.note_dropped(where, f"{name} is also given in another spelling, which is used")
        fields.setdefault(name, _convert_value(name, inner, result, where))
    return fields


def _convert_value(name: str, value: object, result: Conversion | None, path: str) -> Any:
    if name == "labels":
        return dict(value) if isinstance(value, Mapping) else value
    if name in _NUMBERS and isinstance(value, str):
        number = whole_number(value)
        return value if number is None else number
    if name in _LISTS and isinstance(value, str | int | float):
        value = [value]
        if result is not None:
            result.note_change(path, "a list of one, which the API requires")
    if name in ("args", "command", "packageUris", "value") and not isinstance(value, Mapping):
        return _convert_texts(value, result, path)
    return _convert_keys(value, result, path)


def _convert_texts(value: object, result: Conversion | None, path: str) -> Any:
    """Returns an argument, the value of a variable, or a list of them as text."""
    if not isinstance(value, list):
        return value if value is None else text_of(value)
    for index in (index for index, item in enumerate(value) if item is None and result is not None):
        result.note_dropped(f"{path}[{index}]", "null is not a text")  # type: ignore[union-attr]
    return [item if isinstance(item, dict | list) else text_of(item) for item in value if item is not None]
