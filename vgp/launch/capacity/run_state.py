"""Whether the run goes on, asked of its PipelineJob when the launcher is told to end: it may be its machine alone.

- A run that is cancelled is CANCELLING first, and its steps are ended then:
  https://cloud.google.com/vertex-ai/docs/pipelines/cancel-pipeline-runs
- The container of a plain step is a custom job (PipelineTaskExecutorDetail.ContainerDetail.main_job), and a worker
  whose VM is maintained is started again on another one:
  https://cloud.google.com/vertex-ai/docs/training/understanding-training-service
- Google's launcher of one job asks nothing: it cancels the job and exits with 0 (execution_context.py of
  google-cloud-pipeline-components 2.22).

On no page that was found: whether a container gets SIGTERM before its VM goes, and how long before.
"""

from typing import Any

from vgp.base import google_api
from vgp.launch.capacity.patience import is_passing, reason
from vgp.protocol.capacity.clock import Clock
from vgp.protocol.capacity.plan import Plan

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
