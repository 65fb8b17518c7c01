"""Quota, capacity and machines of live custom jobs, with the delays and choices of Vertex AI.

    work = cloud.custom_jobs.works(folder, World(seed=7))     # a Region: jobs start real processes from now on
    work.quotas["custom_model_training_nvidia_h100_gpus"] = 8
    work.provisioning_s, work.notice_s, work.error_late_s = 40, 30, 60
    work.jobs                                                  # WorkingJob by resource name, with their spells

With a stopped clock, events happen when a client calls or a test moves the clock; with a running clock, by themselves.
"""

import random
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .capacity import FOREVER, Place, World
from .errors import ApiError
from .job_errors import JobError, quota
from .machines import Machine, Machines
from .working_job import RUNNING, WorkingJob

if TYPE_CHECKING:
    from .cloud import Cloud

#: Real seconds between two polls.
LOOK_S = 0.02
#: Metrics of quota: https://cloud.google.com/vertex-ai/docs/quotas#training. Flex-start uses the preemptible quota too
#: (.../schedule-jobs-dws#quota).
PREEMPTIBLE = ("spot", "flex_start")


class Region:
    """Quota, capacity and live jobs of all regions; places differ by their names."""

    def __init__(self, cloud: "Cloud", folder: Path, world: World):
        self.cloud, self.world = cloud, world
        self.machines = Machines(cloud, folder)
        self.began: datetime = cloud.clock.now()
        self.jobs: dict[str, WorkingJob] = {}
        #: The most accelerators at one time, by metric; other metrics have no limit.
        self.quotas: dict[str, int] = {}
        self.provisioning_s, self.pause_s, self.notice_s = 10.0, 60.0, 30.0
        #: Seconds from a job's failure until its error appears.
        self.error_late_s = 0.0
        #: The error in place of a preemption, if the program ended in time.
        self.exit_codes = 0.5
        #: Returns a job's error at its start, such as a wrong image or a missing permission.
        self.refusal: Callable[[Any], JobError | None] = lambda message: None
        #: Whether a program with this exit code ends its job; see working_job.py.
        self.is_common: Callable[[int], bool] = lambda code: True
        self._chance = random.Random(f"moods {world.seed}")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            try:
                self.settle()
            except Exception as error:  # a fault of this server, which the fixture reports at the end of the test
                self.cloud.crashed = error
                return

    def close(self) -> None:
        """Ends all processes."""
        self._over.set()
        self._thread.join()
        for job in self.jobs.values():
            for machine in job.machines:
                machine.end()

    def settle(self) -> None:
        with self.cloud.lock:
            now = self.cloud.clock.now()
            for job in list(self.jobs.values()):
                job.settle(now)

    def begin(self, message: Any, now: datetime) -> WorkingJob:
        """Starts a job. Raises ApiError 429 if it needs more than the quota."""
        job = WorkingJob(message, now, self)
        over = [metric for metric, count in needs(job).items() if count > self.quotas.get(metric, count)]
        if over:
            raise ApiError(429, quota(over).message)
        self.jobs[message.name] = job
        return job

    def has_quota(self, job: WorkingJob) -> bool:
        held = [other for other in self.jobs.values() if other is not job and not other.over and other.state != 1]
        return all(
            sum(needs(other).get(metric, 0) for other in held if other.place.region == job.place.region) + count
            <= self.quotas.get(metric, FOREVER)
            for metric, count in needs(job).items()
        )

    def has_capacity(self, place: Place, now: datetime) -> bool:
        return self.world.series(place).up((now - self.began).total_seconds())

    def capacity_ends(self, place: Place, now: datetime) -> datetime | None:
        change = self.world.series(place).next_change((now - self.began).total_seconds())
        return None if change == FOREVER else self.began + timedelta(seconds=change)

    def tells_exit_codes(self) -> bool:
        return self._chance.random() < self.exit_codes

    def log(self, job: WorkingJob, machine: Machine) -> None:
        """Sends the output of the machine's program to Cloud Logging."""
        for severity, line in machine.read_output():
            self.cloud.logs.add(
                line, job_id=job.message.name.rpartition("/")[2], severity=severity, task_name=machine.name
            )

    def running(self) -> list[WorkingJob]:
        return [job for job in self.jobs.values() if job.state == RUNNING]


def needs(job: WorkingJob) -> dict[str, int]:
    """Returns the accelerators of a job by metric of quota."""
    from google.cloud.aiplatform_v1 import AcceleratorType

    found: dict[str, int] = {}
    for pool in job.message.job_spec.worker_pool_specs:
        if count := pool.machine_spec.accelerator_count:
            kind = AcceleratorType(pool.machine_spec.accelerator_type).name.lower()
            kind = kind.replace("nvidia_tesla_", "nvidia_")
            preemptible = "preemptible_" if job.place.strategy in PREEMPTIBLE else ""
            metric = f"custom_model_training_{preemptible}{kind}_gpus"
            found[metric] = found.get(metric, 0) + count * max(1, pool.replica_count)
    return found
