"""A preparation handed to Dataflow by Beam's own runner."""

import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from vgp.base.engine_settings import Dataflow as Settings
from vgp.base.exits import Preempted, ProcessFailed, UserError
from vgp.base.storage.dataflow import ENDPOINT_VARIABLE, Job, Jobs, explained
from vgp.data.beam import following
from vgp.data.beam.local import require_beam
from vgp.data.beam.work import Work

#: Seconds within which a job must have been created, and those that are left for it once the step is to stop.
CREATED_WITHIN_S, STOPS_WITHIN_S = 1800.0, 10.0


def submit(
    work: Work,
    shards: Sequence[Any],
    title: str,
    labels: Mapping[str, str],
    settings: Settings,
    jobs: Jobs,
    stop: threading.Event,
) -> Job:
    """Starts the job called `title`; if one of that name runs, such as after a lost answer, it is that one.

    Raises:
        UserError: a permission, a quota or a setting is wrong, in words.
        ProcessFailed: Dataflow or the bucket could not be reached.
        Preempted: `stop` was set, and no answer had come.
    """
    require_beam()
    import apache_beam as beam
    from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

    from vgp.data.beam.graph import build

    pipeline = beam.Pipeline(runner=DataflowRunner(), options=_options(work, title, labels, settings))
    build(pipeline, work, shards)
    with _quiet(), _refusals_in_words(work.folder), explained(jobs.project, jobs.region, "dataflow.jobs.create"):
        asking = _Asking(pipeline)
        asking.start()
        ends = time.monotonic() + CREATED_WITHIN_S
        while asking.waits(following.LOOK_EVERY_S):
            if (job := _active(jobs, title)) is not None:
                return job
            ends = min(ends, time.monotonic() + STOPS_WITHIN_S) if stop.is_set() else ends
            if time.monotonic() > ends:
                _give_up(title, stop)
        if not asking.error:
            return jobs.get(asking.job_id)
        # Another step was faster (DataflowJobAlreadyExistsError), or the answer was lost and the job is there.
        if (job := _active(jobs, title)) is not None:
            return job
        raise asking.error


class _Asking(threading.Thread):
    """Beam's runner, which sets no limit to how long it waits for an answer: beside it the job is looked for."""

    def __init__(self, pipeline: Any):
        super().__init__(daemon=True)
        self.pipeline, self.job_id = pipeline, ""
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.job_id = self.pipeline.run().job_id()
        except Exception as error:
            self.error = error

    def waits(self, seconds: float) -> bool:
        """Whether it still does, so many seconds later."""
        self.join(seconds)
        return self.is_alive()


def _give_up(title: str, stop: threading.Event) -> NoReturn:
    if stop.is_set():
        raise Preempted(f"this step was cancelled before Dataflow had answered that it starts {title}.")
    raise ProcessFailed(f"Dataflow has not answered in {CREATED_WITHIN_S / 60:.0f} minutes whether it starts {title}.")


def _options(work: Work, title: str, labels: Mapping[str, str], settings: Settings) -> Any:
    """https://cloud.google.com/dataflow/docs/reference/pipeline-options"""
    from apache_beam.options.pipeline_options import PipelineOptions

    endpoint = os.environ.get(ENDPOINT_VARIABLE, "").replace("//127.0.0.1:", "//localhost:")
    known = {"dataflow_endpoint": endpoint} if endpoint else {}
    network = {"subnetwork": settings.subnetwork, "use_public_ips": False} if settings.subnetwork else {}
    account = {"service_account_email": settings.service_account} if settings.service_account else {}
    return PipelineOptions(
        [],
        **known, **network, **account,
        project=settings.project, region=settings.region, job_name=title,
        labels=[f"{key}={value}" for key, value in labels.items()],
        temp_location=f"{work.folder}/beam", staging_location=f"{work.folder}/beam",
        sdk_container_image=settings.image, sdk_location="container", pickle_library="cloudpickle",
        machine_type=settings.machine, disk_size_gb=settings.disk_gb, max_num_workers=settings.max_workers,
        # Each core has a container of its own, and a shard keeps a core busy.
        number_of_worker_harness_threads=1,
        # Holds even if nobody follows the job.
        dataflow_service_options=[f"max_workflow_runtime_walltime_seconds={round(settings.max_hours * 3600)}"],
    )  # fmt: skip


def _active(jobs: Jobs, title: str) -> Job | None:
    return next((job for job in jobs.named(title) if job.active), None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Beam logs what is then said in words."""
    logger = logging.getLogger("apache_beam")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _refusals_in_words(folder: str) -> Iterator[None]:
    """What the bucket refuses: Beam raises it as an OSError of its own text."""
    try:
        yield
    except OSError as error:
        raise UserError(f"the job's files cannot be written to {folder}: {error}") from None
    except ValueError as error:
        raise UserError(f"Dataflow's settings are refused: {error}") from None
