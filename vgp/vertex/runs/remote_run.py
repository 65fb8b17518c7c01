"""A run, read from its PipelineJob: state, times, parameters, errors, and its steps in DAG order.

Google lists only tasks that it has begun to process; the others come from the spec. Loops, conditions and nested
pipelines are tasks that contain tasks (parent_task_id).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.times import moment
from vgp.check.spec.dag import Component, Task
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol.capacity.ladder_view import LadderView
from vgp.protocol.summary import Summary, summary_of
from vgp.vertex import resource_names

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import PipelineJob, PipelineTaskDetail

#: PipelineTaskDetail.State -> the displayed state, if that is not the name in lower case.
_TASK_STATES = {
    "STATE_UNSPECIFIED": "unknown",
    "SKIPPED": "cached",
    "NOT_TRIGGERED": "not triggered",
    "CANCEL_PENDING": "cancelling",
}
#: The final states of a run, or of a group of tasks.
ENDED = ("succeeded", "failed", "cancelled")
#: Limits for a spec whose components contain each other; both exceed Google's own limits.
_MAX_NESTING, _MAX_STEPS = 50, 10_000
#: PipelineState -> the displayed state, if that is not the name in lower case.
_RUN_STATES = {"PIPELINE_STATE_UNSPECIFIED": "unknown"}


@dataclass(frozen=True)
class Step:
    """A task that does work. A task that Google does not list is `waiting`, or `not run` if the run has ended."""

    #: Its path in the DAG: for-loop-1/train[2].
    name: str
    state: str
    #: The path without iterations, for-loop-1/train, and the name of the task in the spec, train.
    path: str = ""
    task: str = ""
    start: datetime | None = None
    end: datetime | None = None
    error: str = ""
    #: The error of the last try, if Google retries the task.
    retrying: str = ""
    #: The ids of the custom jobs of the step, those of earlier tries first.
    jobs: tuple[str, ...] = ()
    #: How often Vertex AI has started the step, without jobs that the step starts itself, such as those of a ladder.
    tries: int = 0
    #: The cost of its ladder so far; None if it was not read, or is unknown.
    ladder_usd: float | None = None
    #: The PipelineTaskDetail.
    detail: "PipelineTaskDetail | None" = field(default=None, compare=False, repr=False)

    def seconds(self, now: datetime) -> float | None:
        """Returns how long the step has been running, or ran; None if it did not run."""
        if self.start is None or self.state in ("cached", "not triggered", "pending", "waiting", "not run"):
            return None
        return max(0.0, ((self.end or now) - self.start).total_seconds())


@dataclass(frozen=True)
class _Place:
    """A group of tasks in the DAG, with the prefixes for the names of its steps."""

    group: Component
    #: The prefixes of `Step.name` and `Step.path`.
    label: str = ""
    path: str = ""
    #: The state of the group's tasks that Google does not list.
    absent: str = "waiting"
    depth: int = 0
    #: Whether the group is a loop; Google lists iterations or tasks in a loop.
    loop: bool = False


def steps_of(spec: PipelineSpec, details: Sequence["PipelineTaskDetail"], run_id: str, *, over: bool) -> list[Step]:
    """Returns the steps of a run in DAG order; `over` is whether the run has ended."""
    tree = _Tree(details)
    top = tree.children.pop(0, [])
    root = _Place(spec.root, absent="not run" if over else "waiting")
    if len(top) == 1 and _is_the_run(top[0], run_id) and top[0].task_name not in spec.root.tasks:
        top = tree.children.pop(top[0].task_id, [])
    return list(islice(tree.level(root, top), _MAX_STEPS))


def _is_the_run(detail: "PipelineTaskDetail", run_id: str) -> bool:
    """Whether the task is the root of the run's DAG, which contains the pipeline's tasks."""
    return detail.task_name == run_id or detail.execution.schema_title in ("system.Run", "system.PipelineRun")


class _Tree:
    """The tasks that Google lists, by the id of their parent; 0 for none."""

    def __init__(self, details: Sequence["PipelineTaskDetail"]) -> None:
        ids = {detail.task_id for detail in details}
        self.children: dict[int, list[PipelineTaskDetail]] = {}
        for detail in sorted(details, key=lambda detail: (_count_seconds(detail), detail.task_id)):
            parent = detail.parent_task_id if detail.parent_task_id in ids - {detail.task_id} else 0
            self.children.setdefault(parent, []).append(detail)

    def level(self, place: _Place, details: Sequence["PipelineTaskDetail"]) -> Iterator[Step]:
        """Yields the steps of a group, those that are not in the spec last."""
        tasks = place.group.tasks
        by_name: dict[str, list[PipelineTaskDetail]] = {name: [] for name in tasks}
        for detail in details:
            by_name.setdefault(detail.task_name, []).append(detail)
        has_iterations = place.loop and by_name.keys() != tasks.keys()
        for name, task_details in by_name.items():
            if not task_details and not has_iterations:
                yield from self._absent_steps(tasks[name], place)
            for number, detail in enumerate(task_details):
                label = f"{name}[{number}]" if len(task_details) > 1 else name
                yield from self._steps(detail, place, label)

    def _steps(self, detail: "PipelineTaskDetail", place: _Place, label: str) -> Iterator[Step]:
        """Yields the step of a task, or the steps in a group."""
        task = place.group.tasks.get(detail.task_name)
        # A task that is not in the spec is an iteration of a loop, and contains the loop's tasks.
        group = task.component if task else place.group
        path = f"{place.path}{detail.task_name}" if task else place.path.rstrip("/")
        step = _step(detail, f"{place.label}{label}", path)
        children = self.children.pop(detail.task_id, [])
        if (not children and not (task and group.is_group)) or place.depth > _MAX_NESTING:
            yield step
            return
        absent = _absent_state(step.state, place.absent)
        inside = _enter_group(place, task, group, f"{step.name}/", absent)
        steps = list(islice(self.level(inside, children), _MAX_STEPS))
        yield from steps
        if step.state == "failed" and not any(inner.state == "failed" for inner in steps):
            yield step  # the group failed, but none of its tasks

    def _absent_steps(self, task: Task, place: _Place) -> Iterator[Step]:
        """Yields the steps of a task that Google does not list."""
        name, path = f"{place.label}{task.name}", f"{place.path}{task.name}"
        if task.component.is_group and place.depth <= _MAX_NESTING:
            yield from self.level(_enter_group(place, task, task.component, f"{name}/", place.absent), [])
        else:
            yield Step(name, place.absent, path, task.name)


def _enter_group(place: _Place, task: Task | None, group: Component, label: str, absent: str) -> _Place:
    """Returns the place inside a group, or inside an iteration (`task` is None). Exit handlers add no prefix."""
    prefix = task.path_prefix if task else ""
    label = label if prefix or not task else place.label
    return _Place(group, label, f"{place.path}{prefix}", absent, place.depth + 1, bool(task and task.is_loop))


def _absent_state(group: str, around: str) -> str:
    if group == "not triggered":
        return group
    return "not run" if group in ENDED else around


def _step(detail: "PipelineTaskDetail", name: str, path: str) -> Step:
    state = _TASK_STATES.get(detail.state.name, detail.state.name.lower())
    step = Step(
        name, state, path, detail.task_name, moment(detail.start_time), moment(detail.end_time), detail.error.message,
        jobs=_job_ids(detail), tries=len(_jobs_of_tries(detail)), detail=detail,
    )  # fmt: skip
    errors = [status.error.message for status in detail.pipeline_task_status if status.error.message]
    return replace(step, retrying=errors[-1]) if errors and state in ("pending", "running") else step


def _job_ids(detail: "PipelineTaskDetail") -> tuple[str, ...]:
    """Returns the ids of the jobs that run the step, and of a job that the step started (`gcp_resources`)."""
    names = _jobs_of_tries(detail)
    if detail.state.name != "SKIPPED":  # the outputs of a cached step name the job of an earlier run
        names += _parse_started_jobs(detail.execution.metadata or {})
    return tuple(dict.fromkeys(number for number in map(resource_names.short, names) if number.isdigit()))


def _jobs_of_tries(detail: "PipelineTaskDetail") -> list[str]:
    """Returns the names of the jobs that ran the step, one for each try, failed ones first."""
    container, custom = detail.executor_detail.container_detail, detail.executor_detail.custom_job_detail
    names = [*container.failed_main_jobs, container.main_job, *custom.failed_jobs, custom.job]
    return list(dict.fromkeys(filter(None, names)))


def _parse_started_jobs(metadata: Any) -> list[str]:
    """Returns the URIs of the custom jobs in the output `gcp_resources`, whose format is
    https://github.com/kubeflow/pipelines/blob/master/components/google-cloud/google_cloud_pipeline_components/proto/gcp_resources.proto
    """
    try:
        resources = json.loads(str(metadata.get("output:gcp_resources", "{}"))).get("resources", [])
        uris = [str(resource.get("resourceUri", "")) for resource in resources]
        return [uri for uri in uris if "/customJobs/" in uri]
    except (ValueError, AttributeError, TypeError):  # an output of another format
        return []


def _count_seconds(detail: "PipelineTaskDetail") -> float:
    return float(detail.create_time.timestamp()) if detail.create_time else 0.0


@dataclass(frozen=True)
class Run:
    """The state of a run when its PipelineJob was read."""

    name: str
    state: str
    created: datetime | None
    started: datetime | None
    ended: datetime | None
    error: str
    display_name: str
    labels: Mapping[str, str]
    #: The compiled pipeline, and the parameter values that the caller set.
    spec: PipelineSpec
    arguments: JsonObject
    steps: tuple[Step, ...]
    #: The PipelineJob.
    job: "PipelineJob" = field(compare=False, repr=False)
    #: The histories of its ladders, if they were read (step_jobs.py).
    ways: tuple[LadderView, ...] = ()

    @property
    def id(self) -> str:
        return resource_names.short(self.name)

    @property
    def region(self) -> str:
        return self.name.split("/")[3] if self.name.count("/") >= 3 else ""

    @property
    def pipeline(self) -> str:
        return self.spec.name

    @property
    def over(self) -> bool:
        return self.state in ENDED

    def seconds(self, now: datetime) -> float | None:
        """Returns the time from the start (else the creation) to the end, or to now; None if there is neither."""
        begin = self.started or self.created
        return max(0.0, ((self.ended or now) - begin).total_seconds()) if begin else None

    @cached_property
    def summary(self) -> Summary:
        """Returns the summary that the run's exit step reports, without prices."""
        from google.protobuf import json_format

        return summary_of(json_format.MessageToDict(type(self.job).pb(self.job)))

    def list_failed_steps(self) -> list[Step]:
        return [step for step in self.steps if step.state == "failed"]


def read(job: "PipelineJob") -> Run:
    """Returns the run of a PipelineJob."""
    from google.protobuf import json_format

    message = type(job).pb(job)
    spec = _spec(message.pipeline_spec.SerializeToString(deterministic=True))
    state = _RUN_STATES.get(job.state.name, job.state.name.removeprefix("PIPELINE_STATE_").lower())
    return Run(
        name=job.name, state=state, created=moment(job.create_time), started=moment(job.start_time),
        ended=moment(job.end_time), error=job.error.message, display_name=job.display_name, labels=dict(job.labels),
        spec=spec, arguments=_arguments(json_format.MessageToDict(message.runtime_config)), job=job,
        steps=tuple(steps_of(spec, job.job_detail.task_details, resource_names.short(job.name), over=state in ENDED)),
    )  # fmt: skip


@lru_cache(maxsize=16)
def _spec(serialized: bytes) -> PipelineSpec:
    """Returns the compiled pipeline of a serialized Struct; cached, because a followed run is read often."""
    from google.protobuf import json_format, struct_pb2

    return PipelineSpec(restore_integers(json_format.MessageToDict(struct_pb2.Struct.FromString(serialized))))


def restore_integers(value: Any) -> Any:
    """Returns a JSON value with its integers, which Google's Struct stores as floats."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: restore_integers(inner) for key, inner in value.items()}
    return [restore_integers(inner) for inner in value] if isinstance(value, list) else value


def _arguments(config: JsonObject) -> JsonObject:
    """Returns the parameter values, also in the form of kfp 1.8: {"parameters": {"epochs": {"intValue": "3"}}}."""
    old = {name: next(iter(value.values()), None) for name, value in config.get("parameters", {}).items()}
    return {**old, **restore_integers(config.get("parameterValues", {}))}
