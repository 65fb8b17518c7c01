"""Jobs of Dataflow by Google's client: found by name, watched and cancelled.

https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.jobs
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from vgp.base import google_api
from vgp.base.exits import ProcessFailed, StoreDown, UserError
from vgp.base.storage.client import is_down

if TYPE_CHECKING:
    from google.cloud import dataflow_v1beta3 as dataflow
    from google.cloud.dataflow_v1beta3 import JobsV1Beta3Client, MessagesV1Beta3Client, MetricsV1Beta3Client

Answer = TypeVar("Answer")

#: Variable that overrides the API's endpoint, as in gcloud:
#: https://cloud.google.com/sdk/gcloud/reference/config/set#api_endpoint_overrides
ENDPOINT_VARIABLE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_DATAFLOW"
#: Timeouts in seconds of one attempt, and of a call with its retries.
ATTEMPT_S, CALL_S = 30.0, 300.0
#: Pause before the second attempt; later pauses are longer.
RETRY_AFTER_S = 1.0
#: States of ended jobs, without the prefix JOB_STATE_.
ENDED = {"DONE", "FAILED", "CANCELLED", "UPDATED", "DRAINED", "STOPPED"}


@dataclass(frozen=True)
class Job:
    id: str
    name: str
    #: RUNNING, DONE, FAILED...
    state: str
    created: datetime
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        return self.state not in ENDED


@dataclass(frozen=True)
class Message:
    id: str
    text: str
    error: bool


@dataclass(frozen=True)
class Jobs:
    """The jobs in a region of a project."""

    project: str
    region: str

    def link(self, job: Job) -> str:
        return f"https://console.cloud.google.com/dataflow/jobs/{self.region}/{job.id}?project={self.project}"

    def list_by_name(self, name: str) -> list[Job]:
        """Returns the jobs with the name, newest first."""
        jobs = self._list_jobs(name=name)
        return sorted((job for job in jobs if job.name == name), key=lambda job: job.created, reverse=True)

    def active(self) -> list[Job]:
        from google.cloud.dataflow_v1beta3 import ListJobsRequest

        return self._list_jobs(filter=ListJobsRequest.Filter.ACTIVE)

    def get(self, job_id: str) -> Job:
        from google.cloud.dataflow_v1beta3 import GetJobRequest

        request = GetJobRequest(project_id=self.project, location=self.region, job_id=job_id)
        with self._explain("dataflow.jobs.get"):
            return _job(self._call(self._jobs.get_job, request))

    def cancel(self, job: Job) -> None:
        """Cancels a job; does nothing if it has ended."""
        from google.api_core.exceptions import BadRequest
        from google.cloud import dataflow_v1beta3 as dataflow

        cancelled = dataflow.Job(requested_state=dataflow.JobState.JOB_STATE_CANCELLED)
        request = dataflow.UpdateJobRequest(project_id=self.project, location=self.region, job_id=job.id, job=cancelled)
        with self._explain("dataflow.jobs.cancel"):
            try:
                self._call(self._jobs.update_job, request)
            except BadRequest:  # REST does not distinguish a failed precondition
                if self.get(job.id).active:
                    raise

    def messages(self, job: Job) -> tuple[list[Message], int]:
        """Returns the warnings and errors of the job, oldest first, and its number of workers."""
        from google.cloud import dataflow_v1beta3 as dataflow

        request = dataflow.ListJobMessagesRequest(
            project_id=self.project, location=self.region, job_id=job.id,
            minimum_importance=dataflow.JobMessageImportance.JOB_MESSAGE_WARNING,
        )  # fmt: skip
        messages, workers = [], 0
        with self._explain("dataflow.messages.list"):
            for page in self._call(self._messages.list_job_messages, request).pages:
                messages += [Message(m.id, m.message_text, _is_error(m)) for m in page.job_messages]
                for event in page.autoscaling_events:
                    workers = event.current_num_workers
        return messages, int(workers)

    def counters(self, job: Job) -> dict[str, int]:
        """Returns the counters of the workers so far, by the names of `graph.py`."""
        from google.cloud.dataflow_v1beta3 import GetJobMetricsRequest

        request = GetJobMetricsRequest(project_id=self.project, location=self.region, job_id=job.id)
        with self._explain("dataflow.metrics.get"):
            metrics = self._call(self._metrics.get_job_metrics, request).metrics
        counted: dict[str, int] = {}
        for metric in metrics:
            if metric.name.origin == "user" and "scalar" in metric:
                counted[metric.name.name] = max(counted.get(metric.name.name, 0), int(metric.scalar))
        return counted

    def _list_jobs(self, **query: object) -> list[Job]:
        from google.cloud.dataflow_v1beta3 import ListJobsRequest

        request = ListJobsRequest(project_id=self.project, location=self.region, **query)
        with self._explain("dataflow.jobs.list"):
            return [_job(job) for job in self._call(self._jobs.list_jobs, request)]

    def _call(self, method: Callable[..., Answer], request: object) -> Answer:
        retry = google_api.retry_policy(first_s=RETRY_AFTER_S, longest_s=60.0, deadline_s=CALL_S)
        return method(request=request, retry=retry, timeout=ATTEMPT_S)

    @contextmanager
    def _explain(self, permission: str) -> Iterator[None]:
        with explain_errors(self.project, self.region, permission):
            yield

    @cached_property
    def _jobs(self) -> "JobsV1Beta3Client":
        from google.cloud.dataflow_v1beta3 import JobsV1Beta3Client

        return _client(JobsV1Beta3Client)

    @cached_property
    def _messages(self) -> "MessagesV1Beta3Client":
        from google.cloud.dataflow_v1beta3 import MessagesV1Beta3Client

        return _client(MessagesV1Beta3Client)

    @cached_property
    def _metrics(self) -> "MetricsV1Beta3Client":
        from google.cloud.dataflow_v1beta3 import MetricsV1Beta3Client

        return _client(MetricsV1Beta3Client)


@contextmanager
def explain_errors(project: str, region: str, permission: str) -> Iterator[None]:
    """Raises Google's errors as UserError, if the user can fix them, or as ProcessFailed or StoreDown, in one line."""
    from google.api_core.exceptions import (
        BadRequest,
        Forbidden,
        GoogleAPIError,
        NotFound,
        TooManyRequests,
        Unauthorized,
    )
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
    from requests import RequestException

    where = f"Dataflow in {region} of {project}"
    try:
        yield
    except DefaultCredentialsError:
        raise google_api.missing_credentials(where) from None
    except (Forbidden, Unauthorized) as error:
        if "has not been used" in error.message or "SERVICE_DISABLED" in str(error):
            fix = f"enable it: gcloud services enable dataflow.googleapis.com --project {project}"
        elif "act as" in error.message or "actAs" in error.message:
            fix = "give the step's account roles/iam.serviceAccountUser on the workers' account"
        else:
            fix = f"the step's account needs {permission} (roles/dataflow.developer has it)"
        raise UserError(f"{where} refuses: {_google_message(error)}. Fix: {fix}.") from None
    except TooManyRequests as error:
        raise UserError(
            f"{where} has no quota left for the job: {_google_message(error)}. Wait until other jobs have ended, or "
            "request more quota."
        ) from None
    except (BadRequest, NotFound) as error:
        raise UserError(f"{where} refuses the job: {_google_message(error)}") from None
    except (GoogleAPIError, GoogleAuthError, RequestException) as error:
        failure = StoreDown if is_down(error) else ProcessFailed
        raise failure(f"{where} could not be reached: {type(error).__name__}: {error}") from None


def _google_message(error: Any) -> str:
    """Returns Google's message without the URL of the request."""
    return re.sub(r"^[A-Z]+ https?://\S+: ", "", error.message).rstrip(". ")


def project() -> str:
    """Returns the project of the credentials. Raises UserError if they have none."""
    if not (name := google_api.load_credentials("Dataflow")[1]):
        raise UserError("Dataflow needs a project, but the credentials have none: set project in pipelines.toml.")
    return name


def _client(kind: Callable[..., Answer]) -> Answer:
    from google.api_core.client_options import ClientOptions

    endpoint = os.environ.get(ENDPOINT_VARIABLE, "").rstrip("/")
    return kind(transport="rest", client_options=ClientOptions(api_endpoint=endpoint) if endpoint else None)


def _job(job: "dataflow.Job") -> Job:
    state = job.current_state.name.removeprefix("JOB_STATE_")
    return Job(job.id, job.name, state, job.create_time, dict(job.labels))


def _is_error(message: "dataflow.JobMessage") -> bool:
    return bool(message.message_importance.name == "JOB_MESSAGE_ERROR")
