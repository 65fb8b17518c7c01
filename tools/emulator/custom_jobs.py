"""Vertex AI's custom jobs: they only take time on the cloud's clock, or they have machines (`works`; region.py).

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.customJobs
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .call import Call
from .capacity import World
from .errors import ApiError, precondition_error
from .listing import Filter, one_page
from .messages import new, parse, rfc3339, set_time, to_json
from .region import Region
from .web_access import fill_web_access
from .working_job import WorkingJob

if TYPE_CHECKING:
    from .cloud import Cloud

PENDING, RUNNING, SUCCEEDED, FAILED, CANCELLED, EXPIRED = 2, 3, 4, 5, 7, 9
NAMES = {
    1: "QUEUED", 2: "PENDING", 3: "RUNNING", 4: "SUCCEEDED", 5: "FAILED", 6: "CANCELLING", 7: "CANCELLED",
    9: "EXPIRED",
}  # fmt: skip
#: https://cloud.google.com/resource-manager/docs/labels-overview#requirements
LABEL = re.compile(r"[\w-]{0,63}")
WEEK_S = 7 * 86_400
TIMES = "= != < > <= >="
FILTERS = {"display_name": "= != :", "state": "= !=", "create_time": TIMES, "labels.*": "= != :"}


@dataclass
class Job:
    message: Any
    created: datetime
    seconds: float
    fail: str | None
    cancelled: datetime | None = None
    #: Seconds until it has machines; infinity: it never gets any, and fails after `seconds`.
    waits_s: float = 10
    #: Seconds from its end until its error appears.
    error_late_s: float = 0.0

    def cancel(self, now: datetime) -> None:
        self.cancelled = now

    def settle(self, now: datetime) -> None:
        """Does nothing: such a job only takes time."""

    def render(self, now: datetime) -> Any:
        """Returns the job at this time."""
        has_machines = self.waits_s < float("inf")
        started = self.created + timedelta(seconds=self.waits_s) if has_machines else datetime.max.replace(tzinfo=UTC)
        ended = self.cancelled or (started if has_machines else self.created) + timedelta(seconds=self.seconds)
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
        elif message.state == FAILED and now >= ended + timedelta(seconds=self.error_late_s):
            message.error.code, message.error.message = 3, self.fail or ""
        return message


class CustomJobs:
    prefix = "aiplatform.projects.locations.customJobs"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.jobs: dict[str, Job | WorkingJob] = {}
        self.region: Region | None = None
        #: Seconds after its creation in which a job is missing from lists.
        self.list_lag_s = 0.0
        #: The behaviour of jobs that are created later.
        self.seconds: float = 60
        self.fail: str | None = None
        self.waits_s: float = 10
        self.error_late_s: float = 0.0
        #: Called with each new job before it is created, so that it can set the job's behaviour.
        self.made: Callable[[Any], None] = lambda message: None
        self._next_id = 5_000_000_000_000_000_001

    def works(self, folder: Path, world: World) -> Region:
        """Lets later jobs start processes on this machine, with files in the folder, if the world has capacity."""
        self.region = Region(self.cloud, folder, world)
        return self.region

    def settle(self) -> None:
        if self.region:
            self.region.settle()

    def close(self) -> None:
        if self.region:
            self.region.close()

    def create(self, call: Call) -> Any:
        parent = self.cloud.resource(call.parent, "aiplatform.customJobs.create")
        return self.begin(parent, parse(call.body, new("CustomJob"))).render(self.cloud.clock.now())

    def begin(self, parent: str, message: Any) -> Job | WorkingJob:
        """Starts a job. Raises ApiError if Vertex AI would refuse it."""
        check(message)
        self.cloud.policies.act_as(message.job_spec.service_account or self.cloud.accounts.compute)
        message.name, now = f"{parent}/customJobs/{self._next_id}", self.cloud.clock.now()
        self._next_id += 6_007
        begun = self.region.begin(message, now) if self.region else self._job(message, now)
        self.jobs[message.name] = begun
        begun.settle(now)
        return begun

    def _job(self, message: Any, now: datetime) -> Job:
        self.made(message)
        return Job(message, now, self.seconds, self.fail, waits_s=self.waits_s, error_late_s=self.error_late_s)

    def find(self, name: str, permission: str) -> Job | WorkingJob:
        job = self.jobs.get(self.cloud.resource(name, permission))
        if job is None:
            raise ApiError(404, f"The CustomJob does not exist: {name}.")
        return job

    def get(self, call: Call) -> Any:
        return self.find(call.name, "aiplatform.customJobs.get").render(self.cloud.clock.now())

    def list(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "aiplatform.customJobs.list")
        now, matches = self.cloud.clock.now(), Filter(call.query.get("filter", ""), FILTERS)

        def names() -> Any:
            latest = now - timedelta(seconds=self.list_lag_s)
            listed = [name for name, job in reversed(self.jobs.items()) if job.created <= latest]
            here = [name for name in listed if name.startswith(f"{parent}/")]
            return [name for name in here if matches.test(filter_fields(self.jobs[name], now))]

        page, following = self.cloud.pages.cut_page(call.query, names)
        integers = "enum-encoding=int" in call.query.get("$alt", "")
        shown = [to_json(self.jobs[name].render(now), integers=integers) for name in page if name in self.jobs]
        return one_page("customJobs", shown, following)

    def cancel(self, call: Call) -> dict[str, Any]:
        job, now = self.find(call.name, "aiplatform.customJobs.cancel"), self.cloud.clock.now()
        if job.render(now).state in (SUCCEEDED, FAILED, CANCELLED, EXPIRED):
            raise precondition_error(f"The CustomJob {job.message.name} has ended and cannot be cancelled.")
        job.cancel(now)
        return {}

    def delete(self, call: Call) -> dict[str, Any]:
        job = self.find(call.name, "aiplatform.customJobs.delete")
        del self.jobs[job.message.name]
        return self.cloud.operations.finish_deletion(job.message.name)


def check(message: Any) -> None:
    """Raises ApiError 400 for a job that Vertex AI would refuse."""
    pools, scheduling = message.job_spec.worker_pool_specs, message.job_spec.scheduling
    for index, pool in enumerate(pools):
        if index == 0 and pool.replica_count not in (0, 1):
            raise ApiError(400, "job_spec.worker_pool_specs[0].replica_count must be 1.")
    if "{{$" in str(message):  # a text that a pipeline would have filled in
        raise ApiError(400, "Invalid value: a placeholder of a pipeline is none of a custom job.")
    if len(message.display_name) > 128:
        raise ApiError(400, "display_name can be up to 128 characters long.")
    for name, value in message.labels.items():
        if (
            not name
            or (name + value) != (name + value).lower()
            or not LABEL.fullmatch(name)
            or not LABEL.fullmatch(value)
        ):
            raise ApiError(400, f"Invalid label: {name!r}: {value!r}.")
    if scheduling.timeout.ToSeconds() > WEEK_S:
        raise ApiError(400, "job_spec.scheduling.timeout must not be more than 7 days.")
    if scheduling.strategy == 6 and len({pool.machine_spec.SerializeToString() for pool in pools}) > 1:
        raise ApiError(400, "With FLEX_START all worker pools must have the same machine spec.")


def filter_fields(job: Job | WorkingJob, now: datetime) -> dict[str, Any]:
    return {
        "display_name": job.message.display_name,
        "state": f"JOB_STATE_{NAMES[job.render(now).state]}",
        "create_time": rfc3339(job.created),
        "labels": dict(job.message.labels),
    }
