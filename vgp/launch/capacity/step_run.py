"""The step and run of this container, read from the executor input of Vertex AI, and the state of that run.

https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto, message ExecutorInput.

On SIGTERM, the launcher reads the state of its PipelineJob, because only its machine may be shutting down.

- A cancelled run is CANCELLING first, and its steps are ended then:
  https://cloud.google.com/vertex-ai/docs/pipelines/cancel-pipeline-runs
- The container of a plain step is a custom job (PipelineTaskExecutorDetail.ContainerDetail.main_job), and a worker
  whose VM is maintained restarts on another one:
  https://cloud.google.com/vertex-ai/docs/training/understanding-training-service
- Google's launcher of one job does not check: it cancels the job and exits with 0 (execution_context.py of
  google-cloud-pipeline-components 2.22).

Not documented: whether a container gets SIGTERM before its VM shuts down, and how long before.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from vgp.base import google_api
from vgp.base.clock import Clock
from vgp.launch.capacity.outage_retry import is_transient, reason
from vgp.protocol.capacity.plan import Plan

#: <root>/<project number>/<run>/<step>_<task id>/<output>: the id differs for each attempt at the task.
_OUTPUT = re.compile(r"(?P<root>gs://.+)/\d+/(?P<run>[^/]+)/[^/]+?_-?\d{6,}/[^/]+/?", re.DOTALL)
_HEX = 12


@dataclass(frozen=True)
class StepRun:
    """An attempt of Vertex AI at a step of a run."""

    executor_input: str
    #: The root of runs, gs://...
    root: str
    run: str
    #: A digest of the inputs of the step; equal for all attempts.
    inputs: str
    #: A digest of the output paths; differs for each attempt of Vertex AI.
    outputs: str
    #: The file of the output `gcp_resources`; empty if the component has none.
    gcp_resources: str

    @classmethod
    def read(cls, executor_input: str) -> Self:
        """Reads an executor input. Raises ValueError if it is not one of a step on Vertex AI."""
        try:
            document = json.loads(executor_input)
        except ValueError as error:
            raise ValueError(f"--executor_input is not JSON: {error}.") from None
        inputs, outputs = (_object(document, key) for key in ("inputs", "outputs"))
        addresses = sorted(set(_addresses(outputs)))
        match = next(filter(None, (_OUTPUT.fullmatch(uri(address)) for address in addresses)), None)
        if match is None:
            raise ValueError(
                "--executor_input names no output below gs://<root>/<project number>/<run>/<step>_<task id>/. A "
                "capacity ladder runs only on Vertex AI."
            )
        values = {
            "parameters": _object(inputs, "parameterValues"),
            "artifacts": _list_uris(_object(inputs, "artifacts")),
        }
        resources = _object(_object(outputs, "parameters"), "gcp_resources").get("outputFile", "")
        return cls(executor_input, match["root"], match["run"], digest(values), digest(addresses), str(resources))

    def control_folder(self, step: str) -> str:
        """Returns the URI of the folder that the launcher and jobs of a step share, over all attempts."""
        return f"{self.root}/capacity/{self.run}/{step}-{self.inputs}"


def uri(path: str) -> str:
    """Returns gs://BUCKET/OBJECT for /gcs/BUCKET/OBJECT, the mount of Vertex AI; other paths unchanged."""
    return f"gs://{path.removeprefix('/gcs/')}" if path.startswith("/gcs/") else path


def digest(value: Any) -> str:
    """Returns a digest of a JSON value, twelve hexadecimal digits."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HEX]


def _object(value: Any, key: str) -> dict[str, Any]:
    """Returns the JSON object under a key, or an empty one."""
    inner = value.get(key) if isinstance(value, Mapping) else None
    return dict(inner) if isinstance(inner, Mapping) else {}


def _list_uris(artifacts: Mapping[str, Any]) -> dict[str, list[str]]:
    return {name: sorted(_addresses(artifact)) for name, artifact in artifacts.items()}


def _addresses(value: Any) -> Iterator[str]:
    """Yields every artifact URI and parameter file below a value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in ("uri", "outputFile") and isinstance(inner, str):
                yield inner
            else:
                yield from _addresses(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _addresses(inner)


ACTIVE = ("QUEUED", "PENDING", "RUNNING")
CANCELLED = ("CANCELLING", "CANCELLED")
#: Number of requests, pause between them and timeout of one, seconds: time is short, and a cancellation may show late.
TIMES, PAUSE_S, ANSWER_S = 3, 3.0, 5.0


def reason_to_end(plan: Plan, run: str, clock: Clock) -> str:
    """Returns the reason to end the job, also if the state of the run is unknown; empty if the run is active."""
    if plan.location.startswith("{{"):
        return "the run's region is not known, so it counts as cancelled"
    name, unknown = f"projects/{plan.project}/locations/{plan.location}/pipelineJobs/{run}", ""
    for number in range(TIMES):
        clock.sleep(PAUSE_S if number else 0.0)
        try:
            state = _state(name)
        except Exception as error:  # no error may leave the job without a launcher
            unknown = f"the run's state is not known ({reason(error)}), so it counts as cancelled"
            if not is_transient(error):
                break
        else:
            if state not in ACTIVE:
                return "the run is cancelled" if state in CANCELLED else f"the run's state is {state.lower()}"
            unknown = ""
    return unknown


def _state(name: str) -> str:
    """Returns the state of a pipeline job without its prefix: RUNNING, CANCELLING ..."""
    from google.api_core.exceptions import from_http_response

    host = f"{name.split('/')[3]}-aiplatform"
    with google_api.session() as session:
        answer: Any = session.get(f"{google_api.address(host)}/v1/{name}", timeout=ANSWER_S)
    if not answer.ok:
        raise from_http_response(answer)
    return str(answer.json().get("state", "unspecified")).removeprefix("PIPELINE_STATE_")
