"""One job of Dataflow: submitted by Beam's own runner, followed to its end, cancelled, and explained if it failed."""

import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NoReturn

from vgp.base.engine_settings import Dataflow as Settings
from vgp.base.exits import Preempted, ProcessFailed, StoreDown, UserError
from vgp.base.storage.dataflow import ENDPOINT_VARIABLE, Job, Jobs, Message, explained
from vgp.base.text.printable import printable
from vgp.data.beam.local import require_beam
from vgp.data.beam.work import Work, failures
from vgp.data.task import Shard

if TYPE_CHECKING:
    from apache_beam import Pipeline
    from apache_beam.options.pipeline_options import PipelineOptions

#: Seconds between two looks at the job, and between two lines of progress.
LOOK_EVERY_S, LINE_EVERY_S = 10.0, 60.0
#: Dataflow tells the reason up to half a minute after the end.
REASON_WITHIN_S = 60.0
#: Letters of a worker's last words that are shown.
LAST_LETTERS = 2_000
#: What the service says where a job cannot start, and what to do.
CAUSES = {
    r"quota|QUOTA_EXCEEDED": "Ask for more quota, or set max_workers or machine to what there is.",
    r"ZONE_RESOURCE_POOL_EXHAUSTED|does not have enough resources|stockout": "Take another machine or region.",
    r"ErrImagePull|ImagePullBackOff|pull.*image|Error syncing pod": (
        "The workers' account must be able to read the image (roles/artifactregistry.reader), and the image needs "
        "Beam's boot program: docs/how-to/dataflow.md."
    ),
    r"[Pp]ermission|PERMISSION_DENIED|403|does not have .* access": (
        "The workers' account needs roles/dataflow.worker, and roles/storage.objectAdmin on the bucket."
    ),
    r"subnet|network|Private Google Access": (
        "The subnetwork must be in the job's region and have Private Google Access."
    ),
}
#: Seconds within which a job must have been created, and those that are left for it once the step is to stop.
CREATED_WITHIN_S, STOPS_WITHIN_S = 1800.0, 10.0


def submit(
    work: Work,
    shards: Sequence[Shard],
    title: str,
    labels: Mapping[str, str],
    settings: Settings,
    jobs: Jobs,
    stop: threading.Event,
) -> Job:
    """Starts the job called `title`; if one of that name runs, such as after a lost answer, it is that one.

    Raises:
        UserError: a permission, a quota or a setting is wrong, in words.
        StoreDown: Dataflow or the bucket could not be reached.
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
        while asking.waits(LOOK_EVERY_S):
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

    def __init__(self, pipeline: "Pipeline"):
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
    raise StoreDown(f"Dataflow has not answered in {CREATED_WITHIN_S / 60:.0f} minutes whether it starts {title}.")


def _options(work: Work, title: str, labels: Mapping[str, str], settings: Settings) -> "PipelineOptions":
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


# ---- a job that runs, followed to its end: its progress, its cancellation, and why it failed


@contextmanager
def cancelling_on_signals() -> Iterator[threading.Event]:
    """What SIGTERM and SIGINT set, inside; outside they are as they were."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def uncancelled(jobs: Jobs, name: str, stop: threading.Event) -> Job | None:
    """The job of that name that runs, if one does; one that is being cancelled, as by an earlier try, is waited for.

    The service starts no other of its name before it has ended, which takes minutes where workers must stop.

    Raises:
        Preempted: `stop` was set meanwhile.
    """
    said = False
    while job := next((job for job in jobs.named(name) if job.active), None):
        if job.state != "CANCELLING":
            return job
        if stop.is_set():
            raise Preempted(f"no Dataflow job was started: {name} was still being cancelled.")
        if not said:
            said = True
            print(f"Dataflow job {name} is still being cancelled: waiting for its end", file=sys.stderr, flush=True)
        stop.wait(LOOK_EVERY_S)
    return None


def follow(jobs: Jobs, job: Job, folder: str, shards: int, max_hours: float, stop: threading.Event) -> None:
    """Waits until the job is done.

    Raises:
        Preempted: `stop` was set; the job is cancelled, and so with all that follow.
        UserError: the input is wrong, or the job took too long.
        ProcessFailed: the job failed.
    """
    ends, said, told = job.created + timedelta(hours=max_hours), -LINE_EVERY_S, ""
    while job.active:
        if stop.is_set():
            jobs.cancel(job)
            raise Preempted(f"the Dataflow job {job.name} was cancelled, as this step was.")
        if datetime.now(UTC) > ends:
            jobs.cancel(job)
            raise UserError(
                f"the Dataflow job {job.name} was cancelled after {max_hours:g} hours, the most that max_hours under "
                "[steps.prepare.dataflow] allows: set it or max_workers higher."
            )
        if final := [failure for failure in failures(folder) if failure.final]:
            jobs.cancel(job)
            raise UserError(final[0].words)
        if time.monotonic() - said >= LINE_EVERY_S and (line := _progress(jobs, job, shards)) != told:
            said, told = time.monotonic(), line
            print(line, file=sys.stderr, flush=True)
        stop.wait(LOOK_EVERY_S)
        job = jobs.get(job.id)
    if job.state != "DONE":
        raise _explained(jobs, job, folder)


def _progress(jobs: Jobs, job: Job, shards: int) -> str:
    _, workers = jobs.messages(job)
    counted = jobs.counters(job)
    done = ", ".join(f"{title} {counted[title]:,}" for title in ("scanned", "made", "written") if title in counted)
    machines = f", {workers} worker{'s' * (workers != 1)}" if workers else ""
    return f"dataflow: {job.state.lower()}{machines}{f'; of {shards:,} shards {done}' if done else ''}"


def _explained(jobs: Jobs, job: Job, folder: str) -> Exception:
    """Why a job has ended that is not done."""
    known = failures(folder)
    if known and known[0].final:
        return UserError(known[0].words)
    if job.state == "CANCELLED":  # what else is known, Dataflow was still trying again
        tried = f" A worker had failed before, which may be why: {known[0].words}" if known else ""
        return ProcessFailed(f"the Dataflow job {job.name} was cancelled, not by this step: {jobs.link(job)}.{tried}")
    words = known[0].words if known else _last_words(_errors(jobs, job))
    fix = next((fix for pattern, fix in CAUSES.items() if not known and re.search(pattern, words)), "")
    return ProcessFailed(f"the Dataflow job {job.name} failed: {words} {fix}".rstrip() + f" Its log: {jobs.link(job)}")


def _errors(jobs: Jobs, job: Job) -> list[Message]:
    deadline = time.monotonic() + REASON_WITHIN_S
    while True:
        errors = [message for message in jobs.messages(job)[0] if message.error]
        if errors or time.monotonic() > deadline:
            return errors
        time.sleep(min(LOOK_EVERY_S, 2))


def _last_words(errors: list[Message]) -> str:
    """The end of a worker's traceback, or else the first that the service says; the last only counts attempts."""
    if not errors:
        return "the service gave no reason."
    traces = [message.text for message in errors if "Traceback" in message.text]
    text = printable(traces[-1] if traces else errors[0].text).strip()
    ends = re.findall(r"^[\w.]+(?:Error|Exception|Exit|Interrupt|Failed|Died)\b.*", text, re.MULTILINE)
    text = ends[-1] if traces and ends else text
    return text if len(text) <= LAST_LETTERS else "..." + text[-LAST_LETTERS:]
