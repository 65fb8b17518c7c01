"""Dataflow: runs the staged pipeline of a job with Beam's direct runner, in a thread of this process.

https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.jobs
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .call import Call
from .errors import ApiError, precondition_error
from .messages import rfc3339

if TYPE_CHECKING:
    from .cloud import Cloud

NAME = re.compile(r"[a-z]([-a-z0-9]{0,1022}[a-z0-9])?")
LABEL = re.compile(r"[a-z][a-z0-9_-]{0,62}")
ENDED = {"DONE", "FAILED", "CANCELLED"}
ALL, TERMINATED, ACTIVE = 1, 2, 3
IMPORTANCE = ("UNKNOWN", "DEBUG", "DETAILED", "WARNING", "ERROR", "BASIC")
#: Importances of messages, from least to most: https://cloud.google.com/dataflow/docs/reference/rest/v1b3/projects.locations.jobs.messages/list
RANK = {1: 0, 2: 1, 5: 2, 3: 3, 4: 4}


@dataclass
class Job:
    message: dict[str, Any]
    created: datetime
    state: str = "RUNNING"
    messages: list[dict[str, Any]] = field(default_factory=list)
    scaling: list[dict[str, Any]] = field(default_factory=list)
    counters: dict[str, int] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def options(self) -> dict[str, Any]:
        return self.message["environment"]["sdkPipelineOptions"]["options"]

    def render(self) -> dict[str, Any]:
        kept = ("id", "name", "projectId", "location", "labels", "type", "clientRequestId")
        fields = {key: self.message[key] for key in kept if key in self.message}
        return {**fields, "currentState": f"JOB_STATE_{self.state}", "createTime": rfc3339(self.created)}

    def log(self, text: str, importance: str = "ERROR") -> None:
        moment = self.created + timedelta(seconds=len(self.messages) + 1)
        self.messages.append(
            {
                "id": f"m{len(self.messages)}",
                "time": rfc3339(moment),
                "messageText": text,
                "messageImportance": f"JOB_MESSAGE_{importance}",
            }
        )

    def scale(self, workers: int) -> None:
        moment = rfc3339(self.created)
        self.scaling.append(
            {"currentNumWorkers": str(workers), "eventType": "CURRENT_NUM_WORKERS_CHANGED", "time": moment}
        )

    def end(self, state: str) -> None:
        if self.state not in ENDED:
            self.state = state
        self.ended.set()


class Jobs:
    """The jobs. `runs` is called in a thread for each new job, by default to run its pipeline. `lag_s` is the time from
    a cancel to the end of the job; `refusal` is the error to return in place of a new job."""

    prefix = "dataflow.projects.locations.jobs"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.jobs: dict[str, Job] = {}
        self.runs: Callable[[Job], None] = self.run
        self.refusal: ApiError | None = None
        self.cancels_at_once = True

    def create(self, call: Call) -> dict[str, Any]:
        self.check(call, "dataflow.jobs.create")
        asked = call.body
        if not NAME.fullmatch(asked.get("name", "")):
            raise ApiError(
                400, f"(d3a1): The workflow could not be created. Causes: invalid job name {asked.get('name')!r}"
            )
        for active in self.jobs.values():
            if active.message["name"] == asked["name"] and active.state not in ENDED:
                return active.render()
        if self.refusal:
            raise self.refusal
        self.check_environment(asked)
        now = self.cloud.clock.now()
        number = f"{now:%Y-%m-%d_%H_%M_%S}-{len(self.jobs) + 1:019}"
        place = {"id": number, "projectId": self.cloud.project, "location": call.params["location"]}
        job = self.jobs[number] = Job({**asked, **place}, now)
        threading.Thread(target=self.live, args=(job,), daemon=True).start()
        return job.render()

    def check_environment(self, asked: dict[str, Any]) -> None:
        """Raises ApiError if the environment lacks a field that the service needs to start workers."""
        for key, value in asked.get("labels", {}).items():
            if not LABEL.fullmatch(key) or not re.fullmatch(r"[a-z0-9_-]{0,63}", value):
                raise ApiError(400, f"(d3a2): Invalid label {key}={value}.")
        environment = asked["environment"]
        pool = environment["workerPools"][0]
        if not pool["sdkHarnessContainerImages"][0]["containerImage"]:
            raise ApiError(400, "(d3a3): the worker pool has no container image.")
        account = environment.get("serviceAccountEmail")
        if account and account not in self.cloud.accounts.accounts:
            raise ApiError(400, f"(d3a4): Current user cannot act as service account {account}, or it does not exist.")
        bucket = environment["tempStoragePrefix"].removeprefix("storage.googleapis.com/").partition("/")[0]
        if bucket not in self.cloud.storage.buckets:
            raise ApiError(400, f"(d3a5): the temporary location's bucket {bucket} does not exist.")

    def get(self, call: Call) -> dict[str, Any]:
        self.check(call, "dataflow.jobs.get")
        return self.find(call).render()

    def list(self, call: Call) -> dict[str, Any]:
        self.check(call, "dataflow.jobs.list")
        kind, name = int(call.query.get("filter") or 0), call.query.get("name")

        def ids() -> list[str]:
            newest = sorted(self.jobs.values(), key=lambda job: (job.created, job.message["id"]), reverse=True)
            wanted = [job for job in newest if name in (None, job.message["name"])]
            if kind in (TERMINATED, ACTIVE):
                wanted = [job for job in wanted if (job.state in ENDED) == (kind == TERMINATED)]
            return [job.message["id"] for job in wanted]

        page, following = self.cloud.pages.cut_page(call.query, ids)
        return {
            "jobs": [self.jobs[id_].render() for id_ in page],
            **({"nextPageToken": following} if following else {}),
        }

    def update(self, call: Call) -> dict[str, Any]:
        self.check(call, "dataflow.jobs.cancel")
        job = self.find(call)
        if call.body.get("requestedState") not in (5, "JOB_STATE_CANCELLED"):
            raise ApiError(400, f"this server cancels jobs, and does not make them {call.body.get('requestedState')}")
        if job.state in ENDED:
            raise precondition_error(
                f"Job {job.message['id']} has already terminated with state JOB_STATE_{job.state}."
            )
        job.state = "CANCELLING"
        if self.cancels_at_once:
            job.end("CANCELLED")
        return job.render()

    def getMetrics(self, call: Call) -> dict[str, Any]:
        self.check(call, "dataflow.metrics.get")
        job = self.find(call)
        named = [
            ({"origin": "user", "name": name, "context": {"namespace": "training", "step": "s1", **tentative}}, value)
            for name, value in job.counters.items()
            for tentative in ({}, {"tentative": "true"})
        ]
        return {"metrics": [{"name": name, "scalar": value} for name, value in named]}

    def check(self, call: Call, permission: str) -> None:
        self.cloud.resource(f"projects/{call.params['projectId']}", permission)

    def find(self, call: Call) -> Job:
        job = self.jobs.get(call.params["jobId"])
        if job is None or call.params["location"] != job.message["location"]:
            raise ApiError(
                404, f"(d3b1): Information about job {call.params['jobId']} could not be found in our system."
            )
        return job

    def live(self, job: Job) -> None:
        """Runs a job to its end."""
        try:
            self.runs(job)
        except Exception as error:
            job.log(f"Error message from worker: {error}")
            job.log("Workflow failed. Causes: a work item was attempted 4 times without success.")
            job.end("FAILED")
        job.end("DONE")

    def run(self, job: Job) -> None:
        """Runs the staged pipeline, with threads as workers."""
        from apache_beam.options.pipeline_options import PipelineOptions
        from apache_beam.portability.api import beam_runner_api_pb2
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner
        from apache_beam.transforms.environments import EmbeddedPythonEnvironment

        pipeline = beam_runner_api_pb2.Pipeline.FromString(self.read_staged_file(job.options["pipelineUrl"]))
        for name in pipeline.components.environments:
            pipeline.components.environments[name].CopyFrom(EmbeddedPythonEnvironment.default().to_runner_api(None))
        job.scale(2)
        result = FnApiRunner().run_via_runner_api(pipeline, PipelineOptions([]))
        for counter in result.metrics().query()["counters"]:
            job.counters[counter.key.metric.name] = counter.committed

    def read_staged_file(self, uri: str) -> bytes:
        bucket, _, name = uri.removeprefix("gs://").partition("/")
        status, _, body = self.cloud.storage.ask("GET", f"/storage/v1/b/{bucket}/o/{quote(name, safe='')}?alt=media")
        assert status == 200, f"{uri} was not staged"
        return body


class Messages:
    prefix = "dataflow.projects.locations.jobs.messages"

    def __init__(self, jobs: Jobs):
        self.jobs = jobs

    def list(self, call: Call) -> dict[str, Any]:
        self.jobs.check(call, "dataflow.messages.list")
        job = self.jobs.find(call)
        least = RANK[int(call.query.get("minimumImportance") or 1)]
        by_id = {message["id"]: message for message in job.messages}

        def ids() -> Any:
            return [id_ for id_, m in by_id.items() if rank(m["messageImportance"]) >= least]

        page, following = self.jobs.cloud.pages.cut_page(call.query, ids)
        answer = {"jobMessages": [by_id[id_] for id_ in page], "autoscalingEvents": job.scaling}
        return {**answer, **({"nextPageToken": following} if following else {})}


def rank(importance: str) -> int:
    return RANK[IMPORTANCE.index(importance.removeprefix("JOB_MESSAGE_"))]
