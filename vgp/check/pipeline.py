"""Judges a compiled KFP pipeline: every task, with the values of its inputs.

A task's container has placeholders for its inputs. Jobs of Google Cloud Pipeline Components are JSON texts made of such
placeholders, in the arguments of a launcher container.
"""

from dataclasses import replace

from vgp.base.documents.bounded_text import FieldPath, Unreadable, spend
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Node, whole_number
from vgp.base.text import google_names
from vgp.check import executor
from vgp.check.check_finding import StepRow
from vgp.check.judgement import Judgement, Reader
from vgp.check.spec.dag import Component, Task
from vgp.check.task_inputs import MAX_NESTING, Inputs, read_declared, run_values
from vgp.machines.placement.machine_rules import Problem


def recognises(data: object) -> bool:
    return isinstance(data, dict) and any(
        isinstance(_find_spec(data).get(key), dict) for key in ("root", "deploymentSpec")
    )


def _find_spec(data: JsonObject) -> JsonObject:
    inner = data.get("pipelineSpec", data.get("pipeline_spec"))
    return inner if isinstance(inner, dict) else data


def judge(judgement: Judgement) -> None:
    """Judges every task of the pipeline in the judgement's document.

    Raises:
        Unreadable: the spec has no tasks to judge, or a part of its frame is of the wrong kind.
    """
    data = judgement.document.data
    at: FieldPath = next(((key,) for key in ("pipelineSpec", "pipeline_spec") if isinstance(data.get(key), dict)), ())
    judgement.on_resource = _stays_on_resource(judgement)
    pipeline = _Pipeline(judgement, data[at[0]] if at else data, at)
    root = pipeline.mapping(pipeline.spec, "root", at)
    arguments, arguments_at = run_values(data)
    declared_at = (*at, "root", "inputDefinitions", "parameters")
    inputs = Inputs(read_declared(root), declared_at, arguments, arguments_at, frozenset(), None)
    if isinstance(root.get("dag"), dict):
        pipeline.dag(root, (*at, "root"), inputs, "")
    elif "executorLabel" in root:
        pipeline.executor("component", root, inputs)
    else:
        raise Unreadable(judgement.document.file, "the pipeline has no tasks", (*at, "root"))


class _Pipeline:
    """A pipeline spec, and the current position of the judgement in it."""

    def __init__(self, judgement: Judgement, spec: JsonObject, at: FieldPath) -> None:
        self.judgement, self.spec, self.at = judgement, spec, at
        self.components = self.mapping(spec, "components", at)
        deployment = self.mapping(spec, "deploymentSpec", at)
        self.executors = self.mapping(deployment, "executors", (*at, "deploymentSpec"))
        self.names: set[str] = set()
        #: Components around the judged one, outermost first.
        self.around: list[str] = []
        #: Number of iterations of the loops around it; None if only the run knows it.
        self.turns: int | None = 1
        #: Number of attempts of the groups around it.
        self.tries = 1

    def mapping(self, parent: JsonObject, key: str, at: FieldPath) -> JsonObject:
        """Returns the object under the key; raises Unreadable if it is another type."""
        return self.object(parent.get(key, {}), (*at, key))

    def object(self, value: object, at: FieldPath) -> JsonObject:
        if not isinstance(value, dict):
            raise Unreadable(self.judgement.document.file, "must be an object", at)
        return value

    def dag(self, component: JsonObject, at: FieldPath, inputs: Inputs, prefix: str) -> None:
        """Judges every task of the component; `prefix` makes the names of its steps unique."""
        dag = self.mapping(component, "dag", at)
        for key, task in self.mapping(dag, "tasks", (*at, "dag")).items():
            where = (*at, "dag", "tasks", str(key))
            self._task(str(key), self.object(task, where), where, inputs, prefix)

    def _task(self, key: str, task: JsonObject, at: FieldPath, parent: Inputs, prefix: str) -> None:
        spend("steps")
        reference = self.mapping(task, "componentRef", at).get("name")
        component = self.components.get(reference) if isinstance(reference, str) else None
        step = key if key not in self.names else f"{prefix}{key}"
        if not isinstance(component, dict):
            text = f"The step refers to a component '{reference}' that does not exist."
            self.judgement.add(step, Node(None, (*at, "componentRef")), "GPU025", text)
            return
        arguments = self.mapping(self.mapping(task, "inputs", at), "parameters", (*at, "inputs"))
        inputs = Inputs(
            read_declared(component), (*self.at, "components", str(reference), "inputDefinitions", "parameters"),
            arguments, (*at, "inputs", "parameters"), _list_loop_items(task), parent,
        )  # fmt: skip
        turns, tries = _multiply(self.turns, _count_iterations(task, inputs)), self.tries * (1 + _count_retries(task))
        if isinstance(component.get("dag"), dict):
            around = self.turns, self.tries
            self.turns, self.tries = turns, tries
            inner = Task(key, task, Component(str(reference), component, self.components)).path_prefix
            self._judge_inner_tasks(step, str(reference), component, at, inputs, f"{prefix}{inner}")
            self.turns, self.tries = around
        else:
            self.names.add(step)
            self._step(step, component, at, inputs, turns, tries)

    def _step(
        self, step: str, component: JsonObject, at: FieldPath, inputs: Inputs, turns: int | None, tries: int
    ) -> None:
        """Judges a task that runs something; its rows are multiplied by its loops and retries."""
        rows = self.judgement.steps
        before = len(rows)
        with self.judgement.report_exceptions(step, Node(None, at)):
            self.executor(step, component, inputs)
        rows[before:] = [_multiply_attempts(row, turns, tries) for row in rows[before:]]

    def _judge_inner_tasks(
        self, step: str, name: str, component: JsonObject, at: FieldPath, inputs: Inputs, prefix: str
    ) -> None:
        """Judges the tasks of a component that is itself a DAG."""
        where = Node(None, (*at, "componentRef"))
        if name in self.around:
            text = f"The component '{name}' contains itself: {' > '.join([*self.around, name])}."
            self.judgement.add(step, where, "GPU025", text, "Use a ParallelFor for a loop.")
        elif len(self.around) >= MAX_NESTING:
            text = f"Components are nested more than {MAX_NESTING} deep; the contents of this one are not judged."
            self.judgement.add(step, where, "GPU031", text)
        else:
            self.around.append(name)
            self.dag(component, (*self.at, "components", name), inputs, prefix)
            self.around.pop()

    def executor(self, step: str, component: JsonObject, inputs: Inputs) -> None:
        label = component.get("executorLabel")
        spec = self.executors.get(label) if isinstance(label, str) else None
        at = (*self.at, "deploymentSpec", "executors")
        if isinstance(spec, dict):
            executor.judge(self.judgement, step, Node(spec, (*at, str(label)), inputs))
        elif label is not None:
            self.judgement.add(step, Node(None, at), "GPU025", f"The step's executor '{label}' does not exist.")


def _multiply_attempts(row: StepRow, turns: int | None, tries: int) -> StepRow:
    """Returns the row with its iterations and attempts; a retry of a ladder continues it, with the same deadline."""
    return replace(row, turns=turns, tries=row.tries if row.rungs else _multiply(row.tries, tries))


def _list_loop_items(task: JsonObject) -> frozenset[str]:
    iterator = task.get("parameterIterator")
    item = iterator.get("itemInput") if isinstance(iterator, dict) else None
    return frozenset([item]) if isinstance(item, str) else frozenset()


def _count_retries(task: JsonObject) -> int:
    policy = task.get("retryPolicy")
    return max(0, whole_number(policy.get("maxRetryCount")) or 0) if isinstance(policy, dict) else 0


def _count_iterations(task: JsonObject, inputs: Inputs) -> int | None:
    """Returns the number of iterations of the task's loop: the length of its list, 1 without a loop, None if
    unknown."""
    if task.get("artifactIterator"):
        return None
    iterator = task.get("parameterIterator")
    if not isinstance(iterator, dict):
        return 1
    items = iterator.get("items")
    items = items if isinstance(items, dict) else {}
    name = items.get("inputParameter")
    node = inputs.lookup(name, 0) if isinstance(name, str) else Node(items.get("raw"))
    value = node.decode().value if node.known else None
    return len(value) if isinstance(value, list) else None


def _multiply(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first * second


#: A field of v1beta1 alone:
#: https://cloud.google.com/python/docs/reference/aiplatform/latest/google.cloud.aiplatform_v1beta1.types.PipelineJob.RuntimeConfig.PersistentResourceRuntimeDetail
_FALLS_BACK = ("FALL_BACK_TO_ON_DEMAND", 2)
#: Actions of Vertex AI for a step that waits too long, by name or number; by default the step fails.
_BEHAVIOURS = (None, "FAIL", "TASK_RESOURCE_UNAVAILABLE_TIMEOUT_BEHAVIOR_UNSPECIFIED", 0, 1, *_FALLS_BACK)
_STEP = "pipeline"


def _stays_on_resource(judgement: Judgement) -> bool:
    """Whether the steps run on a persistent resource only, and never on machines of their own."""
    reader = Reader(judgement, _STEP)
    config = reader.object(Node(judgement.document.data).get("runtimeConfig"), "runtimeConfig")
    runtime = reader.object(config.get("defaultRuntime"), "defaultRuntime") if config else None
    field = "persistentResourceRuntimeDetail"
    detail = reader.object(runtime.get(field), field) if runtime else None
    if detail is None:
        return False
    _check_resource_name(reader, detail.get("persistentResourceName"))
    reader.number(detail.get("taskResourceUnavailableWaitTimeMs"), "taskResourceUnavailableWaitTimeMs")
    behaviour = detail.get("taskResourceUnavailableTimeoutBehavior")
    if behaviour.known and behaviour.value not in _BEHAVIOURS:
        reader.judgement.report_malformed(_STEP, behaviour, str(behaviour.path[-1]), "FAIL or FALL_BACK_TO_ON_DEMAND")
    return behaviour.known and behaviour.value not in _FALLS_BACK


def _check_resource_name(reader: Reader, node: Node) -> None:
    """Judges the full name of the persistent resource, and its region."""
    name, regions = reader.text(node, "persistentResourceName"), reader.judgement.regions
    if node.missing:
        reader.judgement.report_malformed(_STEP, node, "persistentResourceName", "given")
    if not name:
        return
    try:
        region = google_names.persistent_resource_region(name)
    except ValueError as error:
        text = f"persistentResourceName: {error}"
    else:
        if not regions or region in regions:
            return
        text = f"persistentResourceName is in {region}, the run in {', '.join(regions)}."
    reader.judgement.report(_STEP, node, Problem("GPU035", "", text, severity="warning"))
