"""A job of Dataflow: submits it with Beam's runner, follows it to its end, cancels it, and explains its failure."""

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
from vgp.base.storage.dataflow import ENDPOINT_VARIABLE, Job, Jobs, Message, explain_errors
from vgp.base.text.printable import printable
from vgp.data.beam.local_runner import require_beam
from vgp.data.beam.worker_functions import Work, failures
from vgp.data.task import Shard

if TYPE_CHECKING:
    from apache_beam import Pipeline
    from apache_beam.options.pipeline_options import PipelineOptions

#: Seconds between two requests for the job's state, and between two lines of progress.
LOOK_EVERY_S, LINE_EVERY_S = 10.0, 60.0
#: Seconds to wait for the reason of a failure, which Dataflow reports up to half a minute after the end.
REASON_WITHIN_S = 60.0
#: The most letters of a worker's error to show.
LAST_LETTERS = 2_000
#: Patterns of the service's errors about a job that cannot start, and their fixes.
CAUSES = {
    r"quota|QUOTA_EXCEEDED": "Request more quota, or lower max_workers or machine to fit the quota.",
    r"ZONE_RESOURCE_POOL_EXHAUSTED|does not have enough resources|stockout": "Choose another machine or region.",
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
#: Seconds to wait for the creation of a job, and for it after the step got a signal to stop.
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
    """Starts the job called `title` and returns it, or the running job of that name, such as after a lost answer.

    Raises:
        UserError: A permission, a quota or a setting is wrong.
        StoreDown: Dataflow or the bucket could not be reached.
        Preempted: `stop` was set before an answer came.
    """
    require_beam()
    import apache_beam as beam
    from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

    from vgp.data.beam.beam_pipeline import build

    pipeline = beam.Pipeline(runner=DataflowRunner(), options=_build_options(work, title, labels, settings))
    build(pipeline, work, shards)
    with (
        _silence_beam(),
        _explaining_refusals(work.folder),
        explain_errors(jobs.project, jobs.region, "dataflow.jobs.create"),
    ):
        request = _Submission(pipeline)
        request.start()
        deadline = time.monotonic() + CREATED_WITHIN_S
        while request.is_waiting(LOOK_EVERY_S):
            if (job := _find_active(jobs, title)) is not None:
                return job
            deadline = min(deadline, time.monotonic() + STOPS_WITHIN_S) if stop.is_set() else deadline
            if time.monotonic() > deadline:
                _give_up(title, stop)
        if not request.error:
            return jobs.get(request.job_id)
        # Another step was faster (DataflowJobAlreadyExistsError), or the answer was lost and the job exists.
        if (job := _find_active(jobs, title)) is not None:
            return job
        raise request.error


class _Submission(threading.Thread):
    """A thread that runs Beam's runner, which waits for an answer without a limit, while `submit` looks for the job."""

    def __init__(self, pipeline: "Pipeline"):
        super().__init__(daemon=True)
        self.pipeline, self.job_id = pipeline, ""
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.job_id = self.pipeline.run().job_id()
        except Exception as error:
            self.error = error

    def is_waiting(self, seconds: float) -> bool:
        """Waits up to `seconds` for the end, and returns whether the runner still waits for an answer."""
        self.join(seconds)
        return self.is_alive()


def _give_up(title: str, stop: threading.Event) -> NoReturn:
    if stop.is_set():
        raise Preempted(f"this step was cancelled before Dataflow confirmed the start of {title}.")
    raise StoreDown(f"Dataflow did not confirm the start of {title} within {CREATED_WITHIN_S / 60:.0f} minutes.")


def _build_options(work: Work, title: str, labels: Mapping[str, str], settings: Settings) -> "PipelineOptions":
    """Returns Beam's options for the job (https://cloud.google.com/dataflow/docs/reference/pipeline-options)."""
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
        # Limits the job even if no step follows it.
        dataflow_service_options=[f"max_workflow_runtime_walltime_seconds={round(settings.max_hours * 3600)}"],
    )  # fmt: skip


def _find_active(jobs: Jobs, title: str) -> Job | None:
    return next((job for job in jobs.list_by_name(title) if job.active), None)


@contextmanager
def _silence_beam() -> Iterator[None]:
    """Silences Beam's log of errors, which this module reports."""
    logger = logging.getLogger("apache_beam")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _explaining_refusals(folder: str) -> Iterator[None]:
    """Turns errors of Beam into UserErrors; it raises an OSError if the bucket refuses a file."""
    try:
        yield
    except OSError as error:
        raise UserError(f"the job's files cannot be written to {folder}: {error}") from None
    except ValueError as error:
        raise UserError(f"Beam refuses the settings of Dataflow: {error}") from None


# ---- a running job: its progress, its cancellation, and the reason of its failure


@contextmanager
def cancelling_on_signals() -> Iterator[threading.Event]:
    """Yields an event that SIGTERM and SIGINT set, and restores their handlers at the end of the block."""
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


def find_running_job(jobs: Jobs, name: str, stop: threading.Event) -> Job | None:
    """Returns the running job of that name, or None. Waits for the end of a job that is being cancelled, such as by an
    earlier try, because the service starts no other job of its name before; workers may take minutes to stop.

    Raises:
        Preempted: `stop` was set during the wait.
    """
    logged = False
    while job := _find_active(jobs, name):
        if job.state != "CANCELLING":
            return job
        if stop.is_set():
            raise Preempted(f"no Dataflow job was started: {name} was still being cancelled.")
        if not logged:
            logged = True
            print(f"Dataflow job {name} is still being cancelled: waiting for its end", file=sys.stderr, flush=True)
        stop.wait(LOOK_EVERY_S)
    return None


def follow(jobs: Jobs, job: Job, folder: str, shards: int, max_hours: float, stop: threading.Event) -> None:
    """Waits until the job is done.

    Raises:
        Preempted: `stop` was set; the job is cancelled.
        UserError: The input is wrong, or the job took too long; the job is cancelled.
        ProcessFailed: The job failed.
    """
    deadline, printed_at, last_line = job.created + timedelta(hours=max_hours), -LINE_EVERY_S, ""
    while job.active:
        if stop.is_set():
            jobs.cancel(job)
            raise Preempted(f"the Dataflow job {job.name} was cancelled because this step was cancelled.")
        if datetime.now(UTC) > deadline:
            jobs.cancel(job)
            raise UserError(
                f"the Dataflow job {job.name} was cancelled after {max_hours:g} hours, the limit max_hours in "
                "[steps.prepare.dataflow]: raise it or max_workers."
            )
        if final := [failure for failure in failures(folder) if failure.final]:
            jobs.cancel(job)
            raise UserError(final[0].words)
        if time.monotonic() - printed_at >= LINE_EVERY_S and (line := _format_progress(jobs, job, shards)) != last_line:
            printed_at, last_line = time.monotonic(), line
            print(line, file=sys.stderr, flush=True)
        stop.wait(LOOK_EVERY_S)
        job = jobs.get(job.id)
    if job.state != "DONE":
        raise _explain_failure(jobs, job, folder)


def _format_progress(jobs: Jobs, job: Job, shards: int) -> str:
    _, workers = jobs.messages(job)
    counts = jobs.counters(job)
    done = ", ".join(f"{title} {counts[title]:,}" for title in ("scanned", "made", "written") if title in counts)
    machines = f", {workers} worker{'s' * (workers != 1)}" if workers else ""
    return f"dataflow: {job.state.lower()}{machines}{f'; of {shards:,} shards {done}' if done else ''}"


def _explain_failure(jobs: Jobs, job: Job, folder: str) -> Exception:
    """Returns the error of a job that ended without success."""
    known = failures(folder)
    if known and known[0].final:
        return UserError(known[0].words)
    if job.state == "CANCELLED":  # Dataflow was still retrying a failure that was not final
        hint = f" A worker had failed before, which may be the reason: {known[0].words}" if known else ""
        return ProcessFailed(f"the Dataflow job {job.name} was cancelled, not by this step: {jobs.link(job)}.{hint}")
    reason = known[0].words if known else _format_last_error(_list_errors(jobs, job))
    fix = next((fix for pattern, fix in CAUSES.items() if not known and re.search(pattern, reason)), "")
    return ProcessFailed(f"the Dataflow job {job.name} failed: {reason} {fix}".rstrip() + f" Its log: {jobs.link(job)}")


def _list_errors(jobs: Jobs, job: Job) -> list[Message]:
    deadline = time.monotonic() + REASON_WITHIN_S
    while True:
        errors = [message for message in jobs.messages(job)[0] if message.error]
        if errors or time.monotonic() > deadline:
            return errors
        time.sleep(min(LOOK_EVERY_S, 2))


def _format_last_error(errors: list[Message]) -> str:
    """Returns the end of a worker's traceback, or else the service's first error; its last one only counts attempts."""
    if not errors:
        return "the service gave no reason."
    traces = [message.text for message in errors if "Traceback" in message.text]
    text = printable(traces[-1] if traces else errors[0].text).strip()
    ends = re.findall(r"^[\w.]+(?:Error|Exception|Exit|Interrupt|Failed|Died)\b.*", text, re.MULTILINE)
    text = ends[-1] if traces and ends else text
    return text if len(text) <= LAST_LETTERS else "..." + text[-LAST_LETTERS:]
