"""Which step of which run this is, told from the executor input that Vertex AI gives its container.

https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto, message ExecutorInput.

Whether the run goes on, asked of its PipelineJob when the launcher is told to end: it may be its machine alone.

- A run that is cancelled is CANCELLING first, and its steps are ended then:
  https://cloud.google.com/vertex-ai/docs/pipelines/cancel-pipeline-runs
- The container of a plain step is a custom job (PipelineTaskExecutorDetail.ContainerDetail.main_job), and a worker
  whose VM is maintained is started again on another one:
  https://cloud.google.com/vertex-ai/docs/training/understanding-training-service
- Google's launcher of one job asks nothing: it cancels the job and exits with 0 (execution_context.py of
  google-cloud-pipeline-components 2.22).

On no page that was found: whether a container gets SIGTERM before its VM goes, and how long before.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from vgp.base import google_api
from vgp.base.clock import Clock
from vgp.launch.capacity.patience import is_passing, reason
from vgp.protocol.capacity.plan import Plan

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


GOES_ON = ("QUEUED", "PENDING", "RUNNING")
CANCELLED = ("CANCELLING", "CANCELLED")
#: How often is asked, seconds between, and for one answer: little time may be left, and a cancellation may show late.
TIMES, PAUSE_S, ANSWER_S = 3, 3.0, 5.0


def why_ended(plan: Plan, run: str, clock: Clock) -> str:
    """Why the job is to end: what became of the run, or that nobody knows that; empty where the run goes on."""
    if plan.location.startswith("{{"):
        return "the run's region is not known, so it counts as cancelled"
    name, unknown = f"projects/{plan.project}/locations/{plan.location}/pipelineJobs/{run}", ""
    for number in range(TIMES):
        clock.sleep(PAUSE_S if number else 0.0)
        try:
            state = _state(name)
        except Exception as error:  # whatever it is: the job is not left without a launcher by that
            unknown = f"the run's state is not known ({reason(error)}), so it counts as cancelled"
            if not is_passing(error):
                break
        else:
            if state not in GOES_ON:
                return "the run is cancelled" if state in CANCELLED else f"the run's state is {state.lower()}"
            unknown = ""
    return unknown


def _state(name: str) -> str:
    """RUNNING, CANCELLING ..."""
    from google.api_core.exceptions import from_http_response

    host = f"{name.split('/')[3]}-aiplatform"
    with google_api.session() as session:
        answer: Any = session.get(f"{google_api.address(host)}/v1/{name}", timeout=ANSWER_S)
    if not answer.ok:
        raise from_http_response(answer)
    return str(answer.json().get("state", "unspecified")).removeprefix("PIPELINE_STATE_")
