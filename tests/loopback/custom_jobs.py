"""Vertex AI's custom jobs, which run on the cloud's clock.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.customJobs
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError, failed_precondition
from .listing import Filter, one_page
from .messages import new, parse, rfc3339, set_time, to_json
from .web_access import fill_web_access

if TYPE_CHECKING:
    from .cloud import Cloud

PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED = 2, 3, 4, 5, 7
NAMES = {2: "PENDING", 3: "RUNNING", 4: "SUCCEEDED", 5: "FAILED", 7: "CANCELLED"}
TIMES = "= != < > <= >="
FILTERS = {"display_name": "= != :", "state": "= !=", "create_time": TIMES, "labels.*": "= != :"}


@dataclass
class Job:
    message: Any
    created: datetime
    seconds: float
    fail: str | None
    cancelled: datetime | None = None

    def shown(self, now: datetime) -> Any:
        """The job as it is now."""
        started = self.created + timedelta(seconds=10)
        ended = self.cancelled or started + timedelta(seconds=self.seconds)
        message = new("CustomJob")
        message.CopyFrom(self.message)
        message.state = PENDING if now < started else RUNNING
        if now >= ended:
            message.state = CANCELLED if self.cancelled else FAILED if self.fail else SUCCEEDED
        set_time(message, "create_time", self.created)
        set_time(message, "update_time", max(m for m in (self.created, started, ended) if m <= now))
        set_time(message, "start_time", started if started <= min(now, ended) else None)
        set_time(message, "end_time", ended if ended <= now else None)
        fill_web_access(message)
        if message.state == CANCELLED:
            message.error.code, message.error.message = 1, "The job was cancelled."
        elif message.state == FAILED:
            message.error.code, message.error.message = 3, self.fail or ""
        return message


class CustomJobs:
    prefix = "aiplatform.projects.locations.customJobs"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.jobs: dict[str, Job] = {}
        #: What jobs created from now on do.
        self.seconds: float = 60
        self.fail: str | None = None
        self._next_id = 5_000_000_000_000_000_001

    def create(self, call: Call) -> Any:
        parent = self.cloud.resource(call.parent, "aiplatform.customJobs.create")
        message = parse(call.body, new("CustomJob"))
        for index, pool in enumerate(message.job_spec.worker_pool_specs):
            if index == 0 and pool.replica_count not in (0, 1):
                raise ApiError(400, "job_spec.worker_pool_specs[0].replica_count must be 1.")
        message.name = f"{parent}/customJobs/{self._next_id}"
        self._next_id += 6_007
        job = self.jobs[message.name] = Job(message, self.cloud.clock.now(), self.seconds, self.fail)
        return job.shown(self.cloud.clock.now())

    def find(self, name: str, permission: str) -> Job:
        job = self.jobs.get(self.cloud.resource(name, permission))
        if job is None:
            raise ApiError(404, f"The CustomJob does not exist: {name}.")
        return job

    def get(self, call: Call) -> Any:
        return self.find(call.name, "aiplatform.customJobs.get").shown(self.cloud.clock.now())

    def list(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "aiplatform.customJobs.list")
        now, matches = self.cloud.clock.now(), Filter(call.query.get("filter", ""), FILTERS)

        def names() -> Any:
            here = [name for name in reversed(self.jobs) if name.startswith(f"{parent}/")]
            return [name for name in here if matches.test(filtered(self.jobs[name], now))]

        page, following = self.cloud.pages.cut(call.query, names)
        shown = [to_json(self.jobs[name].shown(now), integers=True) for name in page if name in self.jobs]
        return one_page("customJobs", shown, following)

    def cancel(self, call: Call) -> dict[str, Any]:
        job, now = self.find(call.name, "aiplatform.customJobs.cancel"), self.cloud.clock.now()
        if job.shown(now).state in (SUCCEEDED, FAILED, CANCELLED):
            raise failed_precondition(f"The CustomJob {job.message.name} has ended and cannot be cancelled.")
        job.cancelled = now
        return {}

    def delete(self, call: Call) -> dict[str, Any]:
        job = self.find(call.name, "aiplatform.customJobs.delete")
        del self.jobs[job.message.name]
        return self.cloud.operations.deleted(job.message.name)


def filtered(job: Job, now: datetime) -> dict[str, Any]:
    return {
        "display_name": job.message.display_name,
        "state": f"JOB_STATE_{NAMES[job.shown(now).state]}",
        "create_time": rfc3339(job.created),
        "labels": dict(job.message.labels),
    }
