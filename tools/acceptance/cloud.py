"""The runs and schedules of an acceptance: starts them, waits for them, and deletes all of them by their label."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from vgp.base.clock import Clock
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.runs import pipeline_job, run_search
from vgp.vertex.runs.remote_run import Run, read

#: The label of every run, and the prefix of the names of schedules, which have no labels.
LABEL = "acceptance"
CRON = "*/5 * * * *"


class Cloud:
    """One acceptance, whose stamp is in the name of everything that it creates."""

    def __init__(self, settings: Settings, stamp: str, clock: Clock, poll_s: float, log: Callable[[str], None]) -> None:
        folder = f"{clients.bucket(settings)}/{LABEL}/{stamp}"
        self.settings = settings.model_copy(update={"bucket": folder, "labels": {**settings.labels, LABEL: stamp}})
        self.stamp, self.clock, self.poll_s, self.log = stamp, clock, poll_s, log

    def body(self, spec: PipelineSpec, values: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return pipeline_job.build_body(self.settings, spec.content, values or {})

    def start(self, name: str, spec: PipelineSpec, values: Mapping[str, Any] | None = None) -> str:
        """Starts a run and returns its resource name."""
        run_id = f"{LABEL}-{self.stamp}-{name}"
        self.log(f"started {run_id}")
        client, body = clients.pipeline_service(self.settings), self.body(spec, values)
        # `create` would remove the placeholder of the schedule's time, which is one of the checks.
        return str(pipeline_job.send(client, self.settings, {"displayName": run_id, **body}, run_id).name)

    def read_run(self, name: str) -> Run:
        client = clients.pipeline_service(self.settings)
        return read(client.get_pipeline_job(name=name, **clients.reading()))

    def wait_until(self, reached: Callable[[], Any], *, minutes: float = 40) -> Any:
        """Calls `reached` until it returns a true value, for at most `minutes`; returns the last value."""
        deadline = self.clock.moment() + timedelta(minutes=minutes)
        while not (answer := reached()) and self.clock.moment() < deadline:
            self.clock.sleep(self.poll_s)
        return answer

    def wait_for_end(self, name: str) -> Run:
        self.wait_until(lambda: self.read_run(name).over)
        run = self.read_run(name)
        self.log(f"{run.id} {run.state}")
        return run

    def cancel(self, name: str) -> None:
        clients.pipeline_service(self.settings).cancel_pipeline_job(name=name, **clients.reading())

    def custom_job(self, run: Run, step: str) -> Any:
        """Returns the CustomJob of a step, or None if the step names none or it does not exist."""
        numbers = [number for other in run.steps if other.task == step for number in other.jobs]
        if not numbers:
            return None
        name = f"{resource_names.location(self.settings)}/customJobs/{numbers[-1]}"
        return clients.job_service(self.settings).get_custom_job(name=name, **clients.reading())

    def schedule(self, spec: PipelineSpec) -> str:
        """Creates a schedule that starts one run at the next full five minutes; returns its resource name."""
        from google.cloud.aiplatform_v1.types import Schedule

        message = Schedule(display_name=f"{LABEL}-{self.stamp}", cron=CRON, max_run_count=1, max_concurrent_run_count=1)
        request = {
            "parent": resource_names.location(self.settings),
            "pipeline_job": pipeline_job.message(self.body(spec)),
        }
        message.create_pipeline_job_request = request
        client = clients.schedule_service(self.settings)
        request = {"parent": resource_names.location(self.settings), "schedule": message}
        return str(client.create_schedule(request=request, **clients.once()).name)

    def runs(self, text: str) -> list[Any]:
        """Lists the PipelineJobs that match a filter of Google's API, with their tasks."""
        client = clients.pipeline_service(self.settings)
        fields = ("name", "state", "labels", "schedule_name", "job_detail")
        request = run_search.newest_first(self.settings, text, fields, 50)
        return list(client.list_pipeline_jobs(request=request, **clients.reading()))

    def objects(self) -> list[str]:
        """Lists the names of all objects in the acceptance's folder."""
        bucket, _, prefix = self.settings.bucket.removeprefix("gs://").partition("/")  # type: ignore[union-attr]
        return [blob.name for blob in clients.storage(self.settings).list_blobs(bucket, prefix=f"{prefix}/")]


@contextmanager
def clean_up_after(cloud: Cloud) -> Iterator[None]:
    """Deletes everything at the end of the block, also after an error; `--clean` completes an interrupted deletion."""
    try:
        yield
    finally:
        clean(cloud)


def clean(cloud: Cloud, stamp: str = "") -> list[str]:
    """Deletes the resources of the acceptance `stamp`, by default this one, `*` for all; logs and returns the rest."""
    stamp = stamp or cloud.stamp
    kept: list[str] = []
    for _attempt in range(2):  # a schedule may start a run while its runs are deleted
        _delete_schedules(cloud, stamp)
        kept = [problem for name in _list_names(cloud, stamp) if (problem := _delete_run(cloud, name))]
    _delete_objects(cloud, stamp)
    left = "; ".join(kept) or "nothing but the runs' records in ML Metadata, which cost nothing"
    cloud.log(f"cleaned up; left: {left}")
    return kept


def _list_names(cloud: Cloud, stamp: str) -> list[str]:
    text = f"labels.{LABEL}:*" if stamp == "*" else f'labels.{LABEL}="{stamp}"'
    return [job.name for job in cloud.runs(text)]


def _delete_schedules(cloud: Cloud, stamp: str) -> None:
    client = clients.schedule_service(cloud.settings)
    request = {"parent": resource_names.location(cloud.settings)}
    for schedule in client.list_schedules(request=request, **clients.reading()):
        beginning = f"{LABEL}-" if stamp == "*" else f"{LABEL}-{stamp}"
        if schedule.display_name.startswith(beginning):
            _delete(
                lambda name=schedule.name: client.delete_schedule(name=name, **clients.reading()).result(timeout=120)
            )


def _delete_run(cloud: Cloud, name: str) -> str:
    """Deletes a run with its custom jobs; returns a description of the rest.

    The run stays as long as one of its jobs does, because only its record names them.
    """
    run = cloud.read_run(name)
    if not run.over:
        with suppress(Exception):  # it may end at this moment
            cloud.cancel(name)
        cloud.wait_until(lambda: cloud.read_run(name).over, minutes=15)
    jobs = clients.job_service(cloud.settings)
    for number in {number for step in cloud.read_run(name).steps for number in step.jobs}:
        job = f"{resource_names.location(cloud.settings)}/customJobs/{number}"
        problem = _delete(lambda job=job: jobs.delete_custom_job(name=job, **clients.reading()).result(timeout=120))
        if problem:
            return f"customJobs/{number}: {problem}"
    client = clients.pipeline_service(cloud.settings)
    return _delete(lambda: client.delete_pipeline_job(name=name, **clients.reading()).result(timeout=120))


def _delete(delete: Callable[[], Any]) -> str:
    """Calls `delete`; returns the reason of a failure, except that the resource does not exist."""
    from google.api_core.exceptions import NotFound

    try:
        delete()
    except NotFound:
        return ""
    except Exception as error:  # a failure must not stop further deletions
        return f"{type(error).__name__}: {error}"
    return ""


def _delete_objects(cloud: Cloud, stamp: str) -> None:
    bucket, _, prefix = clients.bucket(cloud.settings).removeprefix("gs://").partition("/")
    folder = prefix.rpartition("/")[0] if stamp == "*" else f"{prefix.rpartition('/')[0]}/{stamp}"
    client = clients.storage(cloud.settings)
    for blob in list(client.list_blobs(bucket, prefix=f"{folder}/")):
        _delete(blob.delete)
