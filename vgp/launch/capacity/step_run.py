"""Which step of which run this is, told from the executor input that Vertex AI gives its container.

https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto, message ExecutorInput.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

#: <root>/<project number>/<run>/<step>_<task id>/<output>: the id is another for every attempt at the task.
_OUTPUT = re.compile(r"(?P<root>gs://.+)/\d+/(?P<run>[^/]+)/[^/]+?_-?\d{6,}/[^/]+/?", re.DOTALL)
_HEX = 12


@dataclass(frozen=True)
class StepRun:
    """One attempt of Vertex AI at a step of a run."""

    executor_input: str
    #: The root of runs, gs://...
    root: str
    run: str
    #: A digest of what the step was given: the same for every attempt at it.
    inputs: str
    #: A digest of where its outputs belong: another for every attempt of Vertex AI.
    outputs: str
    #: The file of the output `gcp_resources`; empty where the component has none.
    gcp_resources: str

    @classmethod
    def read(cls, executor_input: str) -> Self:
        """Raises ValueError: it is no executor input of a step on Vertex AI, in a sentence."""
        try:
            whole = json.loads(executor_input)
        except ValueError as error:
            raise ValueError(f"--executor_input is no JSON: {error}.") from None
        inputs, outputs = (_table(whole, key) for key in ("inputs", "outputs"))
        places = sorted(set(_places(outputs)))
        match = next(filter(None, (_OUTPUT.fullmatch(uri(place)) for place in places)), None)
        if match is None:
            raise ValueError(
                "--executor_input names no output below gs://<root>/<project number>/<run>/<step>_<task id>/: a ladder "
                "is climbed on Vertex AI alone."
            )
        given = {"parameters": _table(inputs, "parameterValues"), "artifacts": _uris(_table(inputs, "artifacts"))}
        resources = _table(_table(outputs, "parameters"), "gcp_resources").get("outputFile", "")
        return cls(executor_input, match["root"], match["run"], digest(given), digest(places), str(resources))

    def control_folder(self, step: str) -> str:
        """Where the launcher and the jobs of a step keep what they tell each other, over all attempts."""
        return f"{self.root}/capacity/{self.run}/{step}-{self.inputs}"


def uri(path: str) -> str:
    """/gcs/BUCKET/OBJECT, as Vertex AI mounts it, as gs://BUCKET/OBJECT."""
    return f"gs://{path.removeprefix('/gcs/')}" if path.startswith("/gcs/") else path


def digest(value: Any) -> str:
    """Twelve hexadecimal digits of a JSON value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HEX]


def _table(value: Any, key: str) -> dict[str, Any]:
    inner = value.get(key) if isinstance(value, Mapping) else None
    return dict(inner) if isinstance(inner, Mapping) else {}


def _uris(artifacts: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name: sorted(_places(each)) for name, each in artifacts.items()}


def _places(value: Any) -> Iterator[str]:
    """Every URI of an artifact and every file of a parameter below a value."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key in ("uri", "outputFile") and isinstance(each, str):
                yield each
            else:
                yield from _places(each)
    elif isinstance(value, list):
        for each in value:
            yield from _places(each)
