"""Judges compiled KFP pipelines, whoever compiled them: every task, with the values that reach it.

A task's container has placeholders for its inputs; the task gives constants, pipeline parameters (whose defaults are
in the spec), loop items, or outputs of other tasks (which only the run knows). Jobs of Google Cloud Pipeline
Components are JSON texts made of such placeholders, in the arguments of a launcher container.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from vgp.check import api_object, images, plain_step, remote_runner
from vgp.check.finding import Judgement, unknown_machine
from vgp.documents.budget import spend
from vgp.documents.document import Path_, Unreadable
from vgp.documents.node import Node, whole_number

MAX_NESTING = 50
_PLACEHOLDER = re.compile(r"\{\{\$[^{}]*+\}\}")


@dataclass(frozen=True)
class Inputs:
    """What reaches the inputs of one task. The root's `given` are the run's own parameter values."""

    declared: Mapping[str, Any]
    declared_at: Path_
    given: Mapping[str, Any]
    given_at: Path_
    loop_items: frozenset[str]
    parent: "Inputs | None"
    #: What was looked up before.
    known: dict[str, Node] = field(default_factory=dict, compare=False)

    def lookup(self, name: str, depth: int) -> Node:
        if depth > MAX_NESTING:
            return Node(None, self.given_at, dangling="it refers to itself")
        if name not in self.known:
            spend("look-ups")
            self.known[name] = self._found(name, depth)
        return self.known[name]

    def _found(self, name: str, depth: int) -> Node:
        if name in self.loop_items:
            return Node(None, runtime=f"'{name}' is an item of a loop")
        if name in self.given:
            return self._given(name, depth)
        if name not in self.declared:
            return Node(None, dangling=f"the step has no input '{name}'")
        declaration = self.declared[name]
        declaration = declaration if isinstance(declaration, dict) else {}
        if "defaultValue" in declaration:
            path = (*self.declared_at, name, "defaultValue")
            assumed = name if self.parent is None else ""
            return Node(declaration["defaultValue"], path, self, assumed=assumed, depth=depth).resolved()
        if self.parent is None:
            return Node(None, runtime=f"the pipeline parameter '{name}' has no default")
        return Node(None) if declaration.get("isOptional") else Node(None, dangling=f"the input '{name}' gets no value")

    def _given(self, name: str, depth: int) -> Node:
        spec, path = self.given[name], (*self.given_at, name)
        if self.parent is None:
            return Node(_old_value(spec), path, self, depth=depth)
        if not isinstance(spec, dict):
            return Node(None, path, dangling=f"the input '{name}' is malformed")
        if isinstance(spec.get("componentInputParameter"), str):
            return self.parent.lookup(spec["componentInputParameter"], depth + 1)
        value = spec.get("runtimeValue")
        if isinstance(value, dict):
            return self._constant(value, path, depth)
        what = spec.get("taskOutputParameter")
        if isinstance(what, dict):
            return Node(None, path, runtime=f"it is an output of the step '{what.get('producerTask')}'")
        return Node(None, path, runtime=f"the run gives '{name}' its value")

    def _constant(self, value: dict[str, Any], path: Path_, depth: int) -> Node:
        for key in ("constant", "constantValue"):
            if key in value:
                where = (*path, "runtimeValue", key)
                return Node(_old_value(value[key]), where, self, depth=depth).resolved()
        parameter = value.get("runtimeParameter")
        if isinstance(parameter, str) and self.parent is not None:
            return self.parent.lookup(parameter, depth + 1)
        return Node(None, path, runtime="the run gives it its value")


def _old_value(value: Any) -> Any:
    """kfp 1.8 wraps values: {"stringValue": "x"}."""
    if isinstance(value, dict) and len(value) == 1:
        for key in ("stringValue", "intValue", "doubleValue"):
            if key in value:
                return value[key]
    return value


def recognises(data: Any) -> bool:
    return isinstance(data, dict) and any(isinstance(_spec_of(data, key), dict) for key in ("root", "deploymentSpec"))


def _spec_of(data: dict[str, Any], key: str) -> Any:
    inner = data.get("pipelineSpec", data.get("pipeline_spec"))
    return (inner if isinstance(inner, dict) else data).get(key)


def judge(judgement: Judgement) -> None:
    """Judges every task of the pipeline in the judgement's document.

    Raises:
        Unreadable: the spec has no tasks to judge, or a part of its frame is of the wrong kind.
    """
    data = judgement.document.data
    at: Path_ = next(((key,) for key in ("pipelineSpec", "pipeline_spec") if isinstance(data.get(key), dict)), ())
    spec = data[at[0]] if at else data
    given, given_at = _run_values(data)
    pipeline = _Pipeline(judgement, spec, at)
    root = pipeline.mapping(spec, "root", at)
    declared_at = (*at, "root", "inputDefinitions", "parameters")
    inputs = Inputs(_declared(root), declared_at, given, given_at, frozenset(), None)
    if isinstance(root.get("dag"), dict):
        pipeline.dag(root, (*at, "root"), inputs, "")
    elif "executorLabel" in root:
        pipeline.executor("component", root, inputs)
    else:
        raise Unreadable(judgement.document.file, "the pipeline has no tasks", (*at, "root"))


def _run_values(data: dict[str, Any]) -> tuple[dict[str, Any], Path_]:
    config = data.get("runtimeConfig", data.get("runtime_config"))
    if isinstance(config, dict):
        for key in ("parameterValues", "parameter_values", "parameters"):
            if isinstance(config.get(key), dict):
                return config[key], ("runtimeConfig", key)
    return {}, ()


def _declared(component: dict[str, Any]) -> dict[str, Any]:
    definitions = component.get("inputDefinitions")
    parameters = definitions.get("parameters") if isinstance(definitions, dict) else None
    return parameters if isinstance(parameters, dict) else {}


class _Pipeline:
    def __init__(self, judgement: Judgement, spec: dict[str, Any], at: Path_) -> None:
        self.judgement, self.spec, self.at = judgement, spec, at
        self.components = self.mapping(spec, "components", at)
        deployment = self.mapping(spec, "deploymentSpec", at)
        self.executors = self.mapping(deployment, "executors", (*at, "deploymentSpec"))
        self.names: set[str] = set()
        #: Components that stand around the one that is judged, outermost first.
        self.around: list[str] = []
        #: How often the loops around it turn; None where only the run knows.
        self.turns: int | None = 1

    def mapping(self, parent: dict[str, Any], key: str, at: Path_) -> dict[str, Any]:
        value = parent.get(key, {})
        if not isinstance(value, dict):
            raise Unreadable(self.judgement.document.file, "must be an object", (*at, key))
        return value

    def dag(self, component: dict[str, Any], at: Path_, inputs: Inputs, prefix: str) -> None:
        dag = self.mapping(component, "dag", at)
        tasks = self.mapping(dag, "tasks", (*at, "dag"))
        for key, task in tasks.items():
            where = (*at, "dag", "tasks", str(key))
            if not isinstance(task, dict):
                raise Unreadable(self.judgement.document.file, "must be an object", where)
            self._task(str(key), task, where, inputs, prefix)

    def _task(self, key: str, task: dict[str, Any], at: Path_, parent: Inputs, prefix: str) -> None:
        spend("steps")
        reference = self.mapping(task, "componentRef", at).get("name")
        component = self.components.get(reference) if isinstance(reference, str) else None
        step = key if key not in self.names else f"{prefix}{key}"
        if not isinstance(component, dict):
            where = Node(None, (*at, "componentRef"))
            self.judgement.say(
                step, where, "GPU025", f"The step refers to a component '{reference}' that is not there."
            )
            return
        given = self.mapping(self.mapping(task, "inputs", at), "parameters", (*at, "inputs"))
        inputs = Inputs(
            _declared(component), (*self.at, "components", str(reference), "inputDefinitions", "parameters"),
            given, (*at, "inputs", "parameters"), _loop_items(task), parent,
        )  # fmt: skip
        turns = _product(self.turns, _turns(task, inputs))
        if isinstance(component.get("dag"), dict):
            around, self.turns = self.turns, turns
            self._inside(step, str(reference), component, at, inputs, f"{prefix}{key}/")
            self.turns = around
            return
        self.names.add(step)
        rows = self.judgement.steps
        before = len(rows)
        with self.judgement.guarded(step, Node(None, at)):
            self.executor(step, component, inputs)
        tries = 1 + _retries(task)
        rows[before:] = [
            replace(row, turns=turns, tries=None if row.tries is None else row.tries * tries) for row in rows[before:]
        ]

    def _inside(self, step: str, name: str, component: dict[str, Any], at: Path_, inputs: Inputs, prefix: str) -> None:
        """The tasks of a component that is a DAG itself."""
        where = Node(None, (*at, "componentRef"))
        if name in self.around:
            text = f"The component '{name}' contains itself: {' > '.join([*self.around, name])}."
            self.judgement.say(step, where, "GPU025", text, "A pipeline ends; a loop is a ParallelFor.")
            return
        if len(self.around) >= MAX_NESTING:
            text = f"Components are nested more than {MAX_NESTING} deep; what is inside of this one is not judged."
            self.judgement.say(step, where, "GPU031", text)
            return
        self.around.append(name)
        self.dag(component, (*self.at, "components", name), inputs, prefix)
        self.around.pop()

    def executor(self, step: str, component: dict[str, Any], inputs: Inputs) -> None:
        label = component.get("executorLabel")
        executor = self.executors.get(label) if isinstance(label, str) else None
        at = (*self.at, "deploymentSpec", "executors", str(label))
        if not isinstance(executor, dict):
            if label is not None:
                where = Node(None, (*self.at, "deploymentSpec", "executors"))
                self.judgement.say(step, where, "GPU025", f"The step's executor '{label}' is not there.")
            return
        node = Node(executor, at, inputs)
        if executor.get("customJob") is not None:
            job = node.get("customJob")
            api_object.judge(self.judgement, step, job.get("customJob") if job.get("customJob").value else job)
        elif executor.get("container") is not None:
            self._container(step, node.get("container"))

    def _container(self, step: str, container: Node) -> None:
        if not isinstance(container.value, dict):
            self.judgement.malformed(step, container, "container", "an object")
            return
        found = payload(container) or remote_runner.job(container)
        if found is None and self._unread_payload(step, container):
            self.judgement.steps.append(unknown_machine(step, "STANDARD", self.judgement.regions))
            return
        if found is None:
            plain_step.judge(self.judgement, step, container)
            return
        location = _option(container, "--location")
        api_object.judge(self.judgement, step, found, location=location, strict=True)
        self._on_launcher(step, container)

    def _unread_payload(self, step: str, container: Node) -> bool:
        """A launcher whose job is no JSON: the machine that it would ask for is not the one of the step."""
        for node in _arguments(container):
            if _names_a_job(node.value) and images.is_launcher(container.get("image").text() or ""):
                text = "The job that the launcher starts is not checkable: its text is no JSON."
                self.judgement.say(step, node, "GPU024", text, severity="warning")
                return True
        return False

    def _on_launcher(self, step: str, container: Node) -> None:
        """Requests on the task of a wrapped job stay with the launcher."""
        accelerator = container.get("resources").get("accelerator")
        if accelerator.value:
            text = "The GPU is asked for on the launcher, which only waits for the job; the job does not get it."
            self.judgement.say(step, accelerator, "GPU029", text, "Ask for it in the worker pool's machineSpec.")
        names = [item.get("name").text() or "" for item in container.get("env").items()]
        mine = [name for name in names if name and not name.startswith("VERTEX_AI_")]
        if mine:
            text = f"{', '.join(mine)} is set on the launcher; the training container does not get it."
            self.judgement.say(
                step, container.get("env"), "GPU029", text, "Set it when the component is wrapped (env=)."
            )


def _loop_items(task: dict[str, Any]) -> frozenset[str]:
    iterator = task.get("parameterIterator")
    item = iterator.get("itemInput") if isinstance(iterator, dict) else None
    return frozenset([item]) if isinstance(item, str) else frozenset()


def _retries(task: dict[str, Any]) -> int:
    policy = task.get("retryPolicy")
    return (whole_number(policy.get("maxRetryCount")) or 0) if isinstance(policy, dict) else 0


def _turns(task: dict[str, Any], inputs: Inputs) -> int | None:
    """How often the loop of the task turns: as often as its list is long. 1 without a loop, None if it is not known."""
    if task.get("artifactIterator"):
        return None
    iterator = task.get("parameterIterator")
    if not isinstance(iterator, dict):
        return 1
    items = iterator.get("items")
    items = items if isinstance(items, dict) else {}
    name = items.get("inputParameter")
    node = inputs.lookup(name, 0) if isinstance(name, str) else Node(items.get("raw"))
    value = node.decoded().value if node.known else None
    return len(value) if isinstance(value, list) else None


def _product(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first * second


def payload(container: Node) -> Node | None:
    """The job that a launcher container starts, as the object that its JSON text describes; None if it is none."""
    for node in _arguments(container):
        if not _names_a_job(node.value):
            continue
        value = _json(_joined(node.value, container.scope))
        if api_object.telling_field(value) not in (None, "machineSpec"):
            return Node(value, node.path, container.scope)
    return None


def _names_a_job(argument: Any) -> bool:
    words = ("job_spec", "worker_pool_specs", "dedicated_resources", "workerPoolSpecs")
    return isinstance(argument, str) and any(word in argument for word in words)


def _arguments(container: Node) -> list[Node]:
    """Arguments as they are written: placeholders inside are not followed yet."""
    args = container.get("args")
    values = args.value if isinstance(args.value, list) else []
    return [replace(args, value=value, path=(*args.path, index)) for index, value in enumerate(values)]


def _option(container: Node, name: str) -> Node | None:
    arguments = _arguments(container)
    for node, following in zip(arguments, arguments[1:], strict=False):
        if node.value == name:
            found = following.resolved()
            return found if found.text() else None
    return None


def _joined(text: str, scope: Any) -> str:
    """kfp writes {"Concat": [...]} as JSON text; its parts joined are the JSON that the launcher gets."""
    value = _json(text) if text.lstrip().startswith(('{"Concat"', '{"concat"')) else None
    return _concat(value, scope) if value is not None else text


def _concat(value: Any, scope: Any, depth: int = 0) -> str:
    if isinstance(value, str) or depth > MAX_NESTING:
        return str(value)
    if not isinstance(value, dict):
        return json.dumps(value, default=str)
    lowered = {str(key).lower(): part for key, part in value.items()}
    if isinstance(lowered.get("concat"), list):
        return "".join(_concat(part, scope, depth + 1) for part in lowered["concat"])
    choice = lowered.get("ifpresent")
    if isinstance(choice, dict):
        chosen = "Then" if _present(str(choice.get("InputName")), scope) else "Else"
        return _concat(choice.get(chosen, ""), scope, depth + 1)
    return json.dumps(value, default=str)


def _present(name: str, scope: Any) -> bool:
    found = scope.lookup(name, 0) if scope is not None else Node(None)
    return not found.dangling and (not found.known or found.value is not None)


def _json(text: str) -> Any:
    """The text as JSON, its bare placeholders quoted; None if it is none."""
    spend("characters", len(text))
    pieces, position, inside = [], 0, False
    for match in _PLACEHOLDER.finditer(text):
        before = text[position : match.start()]
        inside ^= len(re.findall(r'(?<!\\)(?:\\\\)*"', before)) % 2 == 1
        pieces += [before, match.group() if inside else json.dumps(match.group())]
        position = match.end()
    try:
        return json.loads("".join([*pieces, text[position:]]), strict=False)
    except (ValueError, RecursionError):
        return None
