"""Plans the start, end and result of each task of a pipeline from its spec, when the job is created.

The scripts of tests set durations, failures and outputs; everything else follows
https://github.com/kubeflow/pipelines/blob/master/api/v2alpha1/pipeline_spec.proto.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from .cache import cache_key
from .retries import plan_tries
from .wiring import (
    comes_anyway,
    dag_outputs,
    holds,
    in_order,
    iterations,
    output_parameters,
    resolve_artifacts,
    resolve_parameters,
    upstream,
)  # fmt: skip

if TYPE_CHECKING:
    from .live_steps import LiveRun


@dataclass(frozen=True)
class Script:
    """The behaviour of the tasks that match `task` (a pattern)."""

    task: str = "*"
    seconds: float = 60
    #: The message of the error, or None.
    fail: str | None = None
    #: Number of failed tries before one succeeds; 0: all fail. The task's retryPolicy limits the tries.
    fails: int = 0
    #: Metadata of every output of type system.Metrics.
    metrics: dict[str, Any] = field(default_factory=dict)
    #: Values of output parameters, or a function that returns them from the task with its inputs and the folder of its
    #: outputs; an exception is the task's error.
    outputs: "dict[str, Any] | Callable[[Task], dict[str, Any]]" = field(default_factory=dict)
    #: Metadata of output artifacts, by name.
    metadata: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: Suffixes that the step added to the URIs of its artifacts, by name.
    uris: dict[str, str] = field(default_factory=dict)
    #: False: the task is skipped as if its condition were false.
    triggered: bool = True


@dataclass
class Task:
    id: int
    name: str
    #: Name with the names of its groups: exit-handler-1.train.
    unique_name: str
    parent_id: int
    start: datetime
    end: datetime
    #: SUCCEEDED, FAILED, SKIPPED (cached) or NOT_TRIGGERED.
    final: str
    #: container, customJob, importer, dag...
    executor: str
    spec: dict[str, Any]
    component: dict[str, Any]
    script: Script
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    #: Input artifacts: (name, task that made it).
    artifacts: dict[str, tuple["Task", str]] = field(default_factory=dict)
    fingerprint: str = ""
    #: The URI of an importer, which identifies the artifact of an earlier run.
    imported: str = ""
    #: The task whose cached outputs it uses.
    cached_from: "Task | None" = None
    error: str = ""
    #: End times of the failed tries before the last one.
    failed_tries: list[datetime] = field(default_factory=list)

    @property
    def worked(self) -> bool:
        return self.final in ("SUCCEEDED", "SKIPPED")

    def output_uri(self, root: str, key: str) -> str:
        source = self.cached_from or self
        return f"{source.root or root}/{source.name}_{source.output_id or source.id}/{key}"

    #: Folder of its outputs; set when the job is created.
    root: str = ""
    #: Folder of the outputs of its last start, if each start has its own.
    output_id: int = 0


class Planner:
    """The planner of one job. `cache` has earlier successful tasks by cache key; `placeholder_values` are those of the
    job; `live` has the live steps."""

    def __init__(
        self,
        spec: dict[str, Any],
        scripts: list[Script],
        cache: dict[str, Task],
        root: str,
        first_id: int,
        placeholder_values: dict[str, str] | None = None,
        live: "LiveRun | None" = None,
    ):
        self.spec, self.scripts, self.cache, self.root, self.placeholder_values = (
            spec,
            scripts,
            cache,
            root,
            placeholder_values or {},
        )
        self.next_id, self.live = first_id, live
        self.tasks: list[Task] = []

    def plan(self, parameters: dict[str, Any], start: datetime, *, fail_fast: bool) -> list[Task]:
        self.fail_fast_after: datetime | None = None
        self.plan_dag(self.spec["root"], parameters, {}, start, 0, "")
        failures = [task.end for task in self.tasks if task.final == "FAILED" and task.executor != "dag"]
        if fail_fast and failures:
            self.stop_after(min(failures))
        for task in self.tasks:
            if task.final == "SUCCEEDED" and task.fingerprint:
                known = self.cache.get(task.fingerprint)
                if known is None or known.end > task.end:
                    self.cache[task.fingerprint] = task
        return self.tasks

    def stop_after(self, moment: datetime) -> None:
        """Applies PIPELINE_FAILURE_POLICY_FAIL_FAST: starts no further task, completes active ones."""
        for task in self.tasks:
            if task.start >= moment and task.final != "NOT_TRIGGERED" and not comes_anyway(task.spec):
                task.final, task.error = "NOT_TRIGGERED", ""
                task.start = task.end = moment
        for task in reversed(self.tasks):
            if task.executor == "dag" and task.final != "NOT_TRIGGERED":
                task.end = max((t.end for t in self.tasks if t.parent_id == task.id), default=task.end)

    def plan_dag(
        self,
        component: dict[str, Any],
        parameters: dict[str, Any],
        artifacts: dict[str, tuple[Task, str]],
        start: datetime,
        parent: int,
        prefix: str,
    ) -> dict[str, Task]:
        done: dict[str, Task] = {}
        for name, spec in in_order(component["dag"]["tasks"]):
            before = [done[other] for other in upstream(spec)]
            ready = max([start, *(task.end for task in before)])
            task = self.plan_task(name, spec, parameters, artifacts, done, ready, parent, prefix)
            done[name] = task
        return done

    def plan_task(
        self,
        name: str,
        spec: dict[str, Any],
        parameters: dict[str, Any],
        artifacts: dict[str, tuple[Task, str]],
        done: dict[str, Task],
        ready: datetime,
        parent: int,
        prefix: str,
    ) -> Task:
        component = self.spec["components"][spec["componentRef"]["name"]]
        executor = self.spec["deploymentSpec"]["executors"].get(component.get("executorLabel"), {})
        task = Task(
            id=self.id_of(f"{prefix}{name}"),
            name=name,
            unique_name=f"{prefix}{name}",
            parent_id=parent,
            start=ready,
            end=ready,
            final="SUCCEEDED",
            executor="dag" if "dag" in component else next(iter(executor), ""),
            spec=spec,
            component=component,
            script=self.script_of(name),
            root=self.root,
        )
        self.tasks.append(task)
        task.inputs = dict(resolve_parameters(spec, parameters, done, self.placeholder_values))
        task.artifacts = dict(resolve_artifacts(spec, artifacts, done))
        blocked = any(not done[other].worked for other in upstream(spec)) and not comes_anyway(spec)
        if blocked or not task.script.triggered or not holds(spec, task.inputs):
            task.final = "NOT_TRIGGERED"
        elif task.executor == "dag":
            self.run_dag(task)
        else:
            self.run_executor(task, executor, done)
        return task

    def id_of(self, unique_name: str) -> int:
        """Returns the id of a task, which is kept when the run is planned again."""
        self.next_id += 1
        turn = sum(task.unique_name == unique_name for task in self.tasks)
        return self.live.id(f"{unique_name}[{turn}]") if self.live else self.next_id

    def run_executor(self, task: Task, executor: dict[str, Any], done: dict[str, Task]) -> None:
        if not executor.get("importer", {"reimport": True}).get("reimport"):
            uri = executor["importer"]["artifactUri"]
            task.imported = str(uri.get("constant") or task.inputs.get(uri.get("runtimeParameter")))
        task.fingerprint = self.cache_key(task, executor)
        hit = self.cache.get(task.fingerprint)
        if task.spec.get("cachingOptions", {}).get("enableCache") and hit and hit.end <= task.start:
            task.final, task.cached_from, task.outputs = "SKIPPED", hit, hit.outputs
            return
        if self.live and task.executor == "container":
            self.live.play(task, executor["container"], done)
        else:
            self.work(task)

    def work(self, task: Task) -> None:
        """Runs a task's function, with retries by its retryPolicy."""
        failures, end, fails = plan_tries(task.script, task.spec)
        task.failed_tries = [task.start + timedelta(seconds=failure) for failure in failures]
        task.end = task.start + timedelta(seconds=end)
        if fails:
            task.final, task.error = "FAILED", str(task.script.fail)
            return
        try:
            task.outputs = output_parameters(task)
        except Exception as error:  # any exception of a test's function fails its step
            task.final, task.error = "FAILED", str(error)

    def cache_key(self, task: Task, executor: dict[str, Any]) -> str:
        made = [(k, self.artifact_id(*made)) for k, made in task.artifacts.items()]
        return cache_key(self.spec["pipelineInfo"]["name"], executor, task.component, task.inputs, made)

    def artifact_id(self, source: Task, key: str) -> tuple[Any, str]:
        if source.executor == "dag":
            selectors = source.component["dag"].get("outputs", {}).get("artifacts", {}).get(key, {})
            for selector in selectors.get("artifactSelectors", ()):
                for inner in self.tasks:
                    if inner.parent_id == source.id and inner.name == selector["producerSubtask"] and inner.worked:
                        return self.artifact_id(inner, selector["outputArtifactKey"])
        return source.imported or (source.cached_from or source).id, key

    def run_dag(self, task: Task) -> None:
        """Plans a condition, an exit handler, a nested pipeline, or a loop, whose iterations run concurrently."""
        for inputs in iterations(task):
            inner = self.plan_dag(task.component, inputs, task.artifacts, task.start, task.id, f"{task.unique_name}.")
            task.end = max([task.end, *(t.end for t in inner.values())])
            if any(t.final == "FAILED" for t in inner.values()):
                task.final = "FAILED"
                task.error = "The DAG failed because some tasks failed."
            task.outputs = dict(dag_outputs(task.component, inner))

    def script_of(self, name: str) -> Script:
        return next((s for s in reversed(self.scripts) if fnmatchcase(name, s.task)), Script())
