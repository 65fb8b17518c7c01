"""Starts, queues or skips the runs of schedules, and completes schedules.

By Google's page on schedules, maxConcurrentRunCount limits the runs that are *starting*, and a start takes no time
here; maxConcurrentActiveRunCount limits active runs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from . import pipeline_spec
from .cron import ticks
from .messages import new, set_time
from .pipeline_jobs import Job

if TYPE_CHECKING:
    from .cloud import Cloud

ACTIVE, PAUSED, COMPLETED = 1, 2, 3


@dataclass
class Live:
    """A schedule with its state on the server."""

    message: Any
    #: Coming run times; `next` is the first of them.
    coming: Iterator[datetime]
    next: datetime | None
    #: Runs that may be active.
    runs: list[Job] = field(default_factory=list)
    #: Until this time no run is skipped, because the schedule catches up.
    backfill_until: datetime | None = None
    #: The job of every run and its spec; set at the first run.
    request: Any = None
    spec: dict[str, Any] | None = None

    def moment(self, name: str) -> datetime | None:
        if not self.message.HasField(name):
            return None
        return getattr(self.message, name).ToDatetime(tzinfo=UTC)

    def step(self) -> None:
        """Moves to the next run time, or to None if the schedule ends before it."""
        self.next = next(self.coming, None)
        end = self.moment("end_time")
        if self.next and end and self.next > end:
            self.next = None
        self.message.ClearField("next_run_time")
        set_time(self.message, "next_run_time", self.next)

    def restart(self, start: datetime) -> None:
        first = self.moment("start_time")
        self.coming = ticks(self.message.cron, max(start, first) if first else start)
        self.step()

    def free_at(self, moment: datetime) -> datetime:
        """Returns when a due run may start: at once, or when enough active runs have ended."""
        self.runs = [job for job in self.runs if job.end > moment]
        limit = self.message.max_concurrent_active_run_count
        if not limit or len(self.runs) < limit:
            return moment
        return sorted(job.end for job in self.runs)[-limit]


class Runs:
    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud

    def settle(self, schedules: Iterable[Live]) -> None:
        """Starts every due run in order of time, and completes schedules that have ended."""
        now = self.cloud.clock.now()
        while due := [live for live in schedules if live.message.state == ACTIVE and self.due(live, now)]:
            live = min(due, key=lambda one: (one.next, one.message.name))
            self.tick(live, now)

    def due(self, live: Live, now: datetime) -> bool:
        end, message = live.moment("end_time"), live.message
        used_up = message.max_run_count and message.started_run_count >= message.max_run_count
        if used_up or (end and end <= now and not live.next):
            self.complete(live)
        queued = message.allow_queueing or live.backfill_until
        return bool(live.next and live.next <= now and (not queued or live.free_at(live.next) <= now))

    def complete(self, live: Live) -> None:
        live.message.state, live.next = COMPLETED, None
        live.message.ClearField("next_run_time")

    def tick(self, live: Live, now: datetime) -> None:
        scheduled = live.next
        assert scheduled
        queued = live.message.allow_queueing or (live.backfill_until and scheduled <= live.backfill_until)
        late = now if live.backfill_until and scheduled <= live.backfill_until else scheduled
        start = live.free_at(late)
        if start > late and not queued:
            live.step()
            return
        self.run(live, scheduled, start)
        live.message.started_run_count += 1
        live.step()
        if live.backfill_until and (live.next is None or live.next > live.backfill_until):
            live.backfill_until = None

    def run(self, live: Live, scheduled: datetime, start: datetime) -> None:
        asked = live.message.create_pipeline_job_request
        if live.spec is None or not asked.pipeline_job.HasField("pipeline_spec"):
            request = new("PipelineJob")
            request.CopyFrom(asked.pipeline_job)
            live.spec, live.request = pipeline_spec.checked(request, self.cloud.templates), request
        job_id = f"{live.spec['pipelineInfo']['name'][:90]}-{scheduled:%Y%m%d%H%M%S}"
        parent = self.cloud.resource(asked.parent, "aiplatform.pipelineJobs.create")
        if f"{parent}/pipelineJobs/{job_id}" in self.cloud.pipeline_jobs.jobs:
            job_id += f"-{live.message.name.rpartition('/')[2]}"
        job = self.cloud.pipeline_jobs.start(
            parent, job_id, live.request, live.spec, schedule=live.message.name, scheduled=scheduled, at=start
        )
        live.runs.append(job)
        response = live.message.last_scheduled_run_response
        set_time(response, "scheduled_run_time", scheduled)
        response.run_response = f"Started {job.name}"
