"""A request as a job of Vertex AI, and the account of it: what each given thing became, or that it is lost and why.

Whatever is given is in the job, in the command around it, or among the notes: nothing vanishes.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from vgp.base.documents.bounded_text import FieldPath
from vgp.check.check_finding import Finding
from vgp.check.sources.command_line import Note

_LOCATION = re.compile(r"projects/([^/]+)/locations/([^/]+)(?:/.*)?")


@dataclass
class Conversion:
    """A CustomJobSpec, or a tuning job around one, with what a request says beside it."""

    config: dict[str, Any]
    notes: list[Note] = field(default_factory=list)
    region: str | None = None
    display_name: str | None = None
    kms_key: str | None = None
    project: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    #: Where the CustomJobSpec stands in the input: jobSpec, for instance.
    spec_at: str = ""
    #: Fields of the input that could not be read.
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_tuning(self) -> bool:
        return "trialJobSpec" in self.config

    @property
    def job(self) -> dict[str, Any]:
        """The CustomJobSpec: the config itself, or that of a trial."""
        spec: dict[str, Any] = self.config["trialJobSpec"] if self.is_tuning else self.config
        return spec

    def became(self, name: str, text: str) -> None:
        self.notes.append(Note(name, text))

    def dropped(self, name: str, why: str) -> None:
        self.notes.append(Note(name, why, dropped=True))

    def located(self, name: str) -> bool:
        """Takes project and region from the beginning of a resource's name; False if it has none."""
        match = _LOCATION.fullmatch(name)
        if match is not None:
            self.project, self.region = self.project or match.group(1), self.region or match.group(2)
        return match is not None

    def body(self) -> dict[str, Any]:
        """The CustomJob or HyperparameterTuningJob as the REST API takes it."""
        around: dict[str, Any] = {"displayName": self.display_name or "training"}
        around |= self.config if self.is_tuning else {"jobSpec": self.config}
        around |= {"labels": self.labels} if self.labels else {}
        return around | ({"encryptionSpec": {"kmsKeyName": self.kms_key}} if self.kms_key else {})

    def command(self, path: str = "config.yaml") -> str:
        """The gcloud command that takes the config."""
        verb = "hp-tuning-jobs" if self.is_tuning else "custom-jobs"
        words = ["gcloud", "ai", verb, "create", f"--region={self.region or 'REGION'}"]
        words += [f"--project={self.project}"] if self.project else []
        words += [f"--display-name={self.display_name or 'training'}", f"--config={path}"]
        counts = {"maxTrialCount": "max-trial-count", "parallelTrialCount": "parallel-trial-count"}
        words += [f"--{flag}={self.config[name]}" for name, flag in counts.items() if name in self.config]
        words += [f"--kms-key={self.kms_key}"] if self.kms_key else []
        words += [f"--labels={','.join(f'{key}={value}' for key, value in self.labels.items())}"] if self.labels else []
        return shlex.join(words)


def as_yaml(config: dict[str, Any]) -> str:
    """A config as gcloud takes it."""
    return str(yaml.safe_dump(config, sort_keys=False, default_flow_style=False, width=1000))


def leaves(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Where everything stands that is given: values, and lists of values as one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            yield from leaves(item, (*path, index))
    elif value is not None:
        yield path


def text_of(value: Any) -> str:
    """A number or truth value as it is written in an argument."""
    return str(value).lower() if isinstance(value, bool) else str(value)
