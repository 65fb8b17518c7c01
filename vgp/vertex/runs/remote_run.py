"""A run as Google describes it, in our words: state, times, parameters, errors, and its steps in DAG order.

Google lists the tasks that it has begun to look at; the spec knows the others. Loops, conditions and nested pipelines
are tasks with tasks inside (parent_task_id).
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
from vgp.protocol.capacity.ladder_view import Way
from vgp.protocol.summary import Summary, summary_of
from vgp.vertex import resource_names

if TYPE_CHECKING:
    from google.cloud.aiplatform_v1.types import PipelineJob, PipelineTaskDetail

#: PipelineTaskDetail.State -> our word, where lower case would not do.
_TASK_STATES = {
    "STATE_UNSPECIFIED": "unknown",
    "SKIPPED": "cached",
    "NOT_TRIGGERED": "not triggered",
    "CANCEL_PENDING": "cancelling",
}
#: States after which nothing more happens in a group of tasks.
_OVER = ("succeeded", "failed", "cancelled")
#: More than Google runs; a spec whose components contain each other would have no end.
_MAX_NESTING, _MAX_STEPS = 50, 10_000

#: PipelineState -> our word, where lower case would not do; and the states after which nothing more happens.
_RUN_STATES = {"PIPELINE_STATE_UNSPECIFIED": "unknown"}
ENDED = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class Step:
    """One task that does work; `waiting` and `not run` are tasks that Google does not list (yet)."""

    #: The way to it: for-loop-1/train[2].
    name: str
    state: str
    #: The same without iterations, for-loop-1/train, and its last part: how the spec calls it.
    path: str = ""
    task: str = ""
    start: datetime | None = None
    end: datetime | None = None
    error: str = ""
    #: The error of an attempt after which Google tries again.
    retrying: str = ""
    #: Google's custom jobs that ran it, by number, earlier attempts first.
    jobs: tuple[str, ...] = ()
    #: How often Vertex AI has started it. What it starts itself, such as the jobs of a ladder, are no tries of it.
    tries: int = 0
    #: What its ladder has cost, where somebody asked for that and it is known.
    ladder_usd: float | None = None
    #: The PipelineTaskDetail.
    detail: "PipelineTaskDetail | None" = field(default=None, compare=False, repr=False)

    def seconds(self, now: datetime) -> float | None:
        """How long it has been running, or ran; None if it did not."""
        if self.start is None or self.state in ("cached", "not triggered", "pending", "waiting", "not run"):
            return None
        return max(0.0, ((self.end or now) - self.start).total_seconds())


@dataclass(frozen=True)
class _Place:
    """Where in the DAG the walk stands."""

    group: Component
    label: str = ""
    path: str = ""
    #: State of a task that Google does not list here.
    absent: str = "waiting"
    depth: int = 0
    #: Whether it is a loop, which may hold its iterations instead of its tasks.
    loop: bool = False


def steps_of(spec: PipelineSpec, details: Sequence["PipelineTaskDetail"], run_id: str, *, over: bool) -> list[Step]:
    """The steps of a run from its spec and its PipelineTaskDetails, in DAG order. `over`: the run has ended."""
    tree = _Tree(details)
    top = tree.children.pop(0, [])
    root = _Place(spec.root, absent="not run" if over else "waiting")
    if len(top) == 1 and _is_the_run(top[0], run_id) and top[0].task_name not in spec.root.tasks:
        top = tree.children.pop(top[0].task_id, [])
    return list(islice(tree.level(root, top), _MAX_STEPS))


def _is_the_run(detail: "PipelineTaskDetail", run_id: str) -> bool:
    """Whether the task stands for the whole run, as its execution in ML Metadata does."""
    return detail.task_name == run_id or detail.execution.schema_title in ("system.Run", "system.PipelineRun")


class _Tree:
    """The tasks that Google lists, below those that they are part of."""

    def __init__(self, details: Sequence["PipelineTaskDetail"]) -> None:
        known = {detail.task_id for detail in details}
        self.children: dict[int, list[PipelineTaskDetail]] = {}
        for detail in sorted(details, key=lambda detail: (_seconds(detail), detail.task_id)):
            parent = detail.parent_task_id if detail.parent_task_id in known - {detail.task_id} else 0
            self.children.setdefault(parent, []).append(detail)

    def level(self, place: _Place, details: Sequence["PipelineTaskDetail"]) -> Iterator[Step]:
        """The steps of one DAG. Tasks that its spec does not know come last."""
        tasks = place.group.tasks
        by_name: dict[str, list[PipelineTaskDetail]] = {name: [] for name in tasks}
        for detail in details:
            by_name.setdefault(detail.task_name, []).append(detail)
        turns = place.loop and by_name.keys() != tasks.keys()
        for name, listed in by_name.items():
            if not listed and not turns:
                yield from self._absent(tasks[name], place)
            for number, detail in enumerate(listed):
                label = f"{name}[{number}]" if len(listed) > 1 else name
                yield from self._task(detail, place, label)

    def _task(self, detail: "PipelineTaskDetail", place: _Place, label: str) -> Iterator[Step]:
        task = place.group.tasks.get(detail.task_name)
        # A task that is not in the spec is an iteration of the loop around it, and holds the same tasks.
        group = task.component if task else place.group
        path = f"{place.path}{detail.task_name}" if task else place.path.rstrip("/")
        step = _step(detail, f"{place.label}{label}", path)
        children = self.children.pop(detail.task_id, [])
        if (not children and not (task and group.is_group)) or place.depth > _MAX_NESTING:
            yield step
            return
        absent = _absent_state(step.state, place.absent)
        inside = _inside(place, task, group, f"{step.name}/", absent)
        steps = list(islice(self.level(inside, children), _MAX_STEPS))
        yield from steps
        if step.state == "failed" and not any(inner.state == "failed" for inner in steps):
            yield step  # the group itself failed, before its tasks or between them

    def _absent(self, task: Task, place: _Place) -> Iterator[Step]:
        name, path = f"{place.label}{task.name}", f"{place.path}{task.name}"
        if task.component.is_group and place.depth <= _MAX_NESTING:
            yield from self.level(_inside(place, task, task.component, f"{name}/", place.absent), [])
        else:
            yield Step(name, place.absent, path, task.name)


def _inside(place: _Place, task: Task | None, group: Component, label: str, absent: str) -> _Place:
    """Inside of a group, or of an iteration, which is no task of the spec. Exit handlers are not told."""
    way = task.path_prefix if task else ""
    label = label if way or not task else place.label
    return _Place(group, label, f"{place.path}{way}", absent, place.depth + 1, bool(task and task.is_loop))


def _absent_state(group: str, around: str) -> str:
    if group == "not triggered":
        return group
    return "not run" if group in _OVER else around


def _step(detail: "PipelineTaskDetail", name: str, path: str) -> Step:
    state = _TASK_STATES.get(detail.state.name, detail.state.name.lower())
    step = Step(
        name, state, path, detail.task_name, moment(detail.start_time), moment(detail.end_time), detail.error.message,
        jobs=_jobs(detail), tries=len(_own(detail)), detail=detail,
    )  # fmt: skip
    failed = [status.error.message for status in detail.pipeline_task_status if status.error.message]
    return replace(step, retrying=failed[-1]) if failed and state in ("pending", "running") else step


def _jobs(detail: "PipelineTaskDetail") -> tuple[str, ...]:
    """The jobs of the step itself, and the one that a step of Google's components started (`gcp_resources`)."""
    listed = _own(detail)
    if detail.state.name != "SKIPPED":  # the outputs of a cached step name the job of an earlier run
        listed += _started(detail.execution.metadata or {})
    return tuple(dict.fromkeys(number for number in map(resource_names.short, listed) if number.isdigit()))


def _own(detail: "PipelineTaskDetail") -> list[str]:
    """A job for each try, the failed ones first."""
    container, custom = detail.executor_detail.container_detail, detail.executor_detail.custom_job_detail
    listed = [*container.failed_main_jobs, container.main_job, *custom.failed_jobs, custom.job]
    return list(dict.fromkeys(filter(None, listed)))


def _started(metadata: Any) -> list[str]:
    """https://github.com/kubeflow/pipelines/blob/master/components/google-cloud/google_cloud_pipeline_components/proto/gcp_resources.proto"""
    try:
        resources = json.loads(str(metadata.get("output:gcp_resources", "{}"))).get("resources", [])
        uris = [str(resource.get("resourceUri", "")) for resource in resources]
        return [uri for uri in uris if "/customJobs/" in uri]
    except (ValueError, AttributeError, TypeError):  # some other tool's text
        return []


def _seconds(detail: "PipelineTaskDetail") -> float:
    return float(detail.create_time.timestamp()) if detail.create_time else 0.0


@dataclass(frozen=True)
class Run:
    """A run at one moment."""

    name: str
    state: str
    created: datetime | None
    started: datetime | None
    ended: datetime | None
    error: str
    display_name: str
    labels: Mapping[str, str]
    #: The compiled pipeline, and the values of its parameters that the run was started with.
    spec: PipelineSpec
    arguments: JsonObject
    steps: tuple[Step, ...]
    #: The PipelineJob.
    job: "PipelineJob" = field(compare=False, repr=False)
    #: The ways up its ladders, where somebody asked for them.
    ways: tuple[Way, ...] = ()

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
        """From its start, or its creation, until its end, or now."""
        begin = self.started or self.created
        return max(0.0, ((self.ended or now) - begin).total_seconds()) if begin else None

    @cached_property
    def summary(self) -> Summary:
        """What it says of itself, as its exit step says it; without prices."""
        from google.protobuf import json_format

        return summary_of(json_format.MessageToDict(type(self.job).pb(self.job)))

    def failed(self) -> list[Step]:
        return [step for step in self.steps if step.state == "failed"]


def read(job: "PipelineJob") -> Run:
    """The run of a PipelineJob message."""
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
    """Returns the compiled pipeline of a Struct; a run that is followed has the same one at every look."""
    from google.protobuf import json_format, struct_pb2

    return PipelineSpec(whole(json_format.MessageToDict(struct_pb2.Struct.FromString(serialized))))


def whole(value: Any) -> Any:
    """JSON as it was before Google's Struct made every number a float."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, dict):
        return {key: whole(inner) for key, inner in value.items()}
    return [whole(inner) for inner in value] if isinstance(value, list) else value


def _arguments(config: JsonObject) -> JsonObject:
    """Parameter values, those of kfp 1.8 too: {"parameters": {"epochs": {"intValue": "3"}}}."""
    old = {name: next(iter(value.values()), None) for name, value in config.get("parameters", {}).items()}
    return {**old, **whole(config.get("parameterValues", {}))}
