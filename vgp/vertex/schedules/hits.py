"""Which steps of a coming run would take the result of an earlier one: the cache's key of each, compared part by part.

vgp/check/spec/pipeline_spec.py describes the key. An output that is not known before the run is represented by the
step that makes it: it is the same where that step is a hit.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vgp.base.documents.json_text import JsonView
from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec

#: {{$.inputs.parameters['pipelinechannel--data']}} in a constant.
_INPUT = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
#: Of the run and its time, {{$.pipeline_job_name}}: another text in every run.
_OF_THE_RUN = re.compile(r"\{\{\$\.pipeline_job_[a-z_]+\}\}")
_MAX_NESTING = 50


@dataclass(frozen=True)
class _Made:
    """An output of a task that is not known before the run."""

    task: str
    key: str


@dataclass(frozen=True)
class Key:
    """What Vertex AI looks a step up by; equal for equal steps."""

    cached: bool
    parts: Any
    #: The tasks whose outputs it takes and that are not known before the run, by their ways.
    makers: frozenset[str]
    #: Its parameters, as far as they are known before the run.
    parameters: Mapping[str, Any]


def keys(spec: PipelineSpec, values: JsonView, returned: JsonView) -> dict[str, Key]:
    """The key of every step by its way in the spec, producers first.

    `values` are the run's parameters; `returned` are outputs that are known: {"resolve.data": ...}.
    """
    return dict(_keys(spec, spec.root, {**spec.defaults, **values}, returned, "", 0))


def hits(after: Mapping[str, Key], before: Mapping[str, Key], done: set[str]) -> list[str]:
    """The ways of the steps that would be hits, where `before` are those of a run whose steps `done` have a result."""
    result: list[str] = []
    for way, key in after.items():
        same = way in before and before[way].parts == key.parts and way in done
        if key.cached and same and key.makers.issubset(result) and not _of_the_run(key.parts):
            result.append(way)
    return result


def _keys(
    spec: PipelineSpec, group: Component, inputs: JsonView, returned: JsonView, way: str, depth: int
) -> Iterator[tuple[str, Key]]:
    for task in group.tasks.values():
        parameters = dict(_parameters(task, inputs, returned, way))
        artifacts = dict(_artifacts(task, inputs, way))
        if not task.component.is_group:
            yield f"{way}{task.name}", _key(spec, task, parameters, artifacts)
        elif depth < _MAX_NESTING:
            inner = {**parameters, **artifacts}
            yield from _keys(spec, task.component, inner, returned, f"{way}{task.way}", depth + 1)


def _key(spec: PipelineSpec, task: Task, parameters: JsonView, artifacts: JsonView) -> Key:
    declared = table(task.component.content, "inputDefinitions", "parameters")
    defaults = {name: part["defaultValue"] for name, part in declared.items() if "defaultValue" in part}
    executor = spec.executor(task)
    container = table(executor, "container")
    work = {key: container.get(key) for key in ("image", "command", "args", "env")} if container else executor
    outputs = {kind: sorted(parts) for kind, parts in table(task.component.content, "outputDefinitions").items()}
    known = {**defaults, **parameters}
    makers = {value.task for value in [*known.values(), *artifacts.values()] if isinstance(value, _Made)}
    return Key(task.is_cached, [spec.name, known, dict(artifacts), outputs, work], frozenset(makers), known)


def _parameters(task: Task, inputs: JsonView, returned: JsonView, way: str) -> Iterator[tuple[str, Any]]:
    for name, source in table(task.content, "inputs", "parameters").items():
        output, constant = table(source, "taskOutputParameter"), table(source, "runtimeValue").get("constant")
        if output:
            made = _Made(f"{way}{output['producerTask']}", output["outputParameterKey"])
            yield name, returned.get(f"{output['producerTask']}.{made.key}", made)
        elif "componentInputParameter" in source:
            yield name, inputs.get(source["componentInputParameter"])
        elif isinstance(constant, str):
            yield name, _INPUT.sub(lambda match: str(inputs.get(match[1], match[0])), constant)
        else:
            yield name, constant


def _artifacts(task: Task, inputs: JsonView, way: str) -> Iterator[tuple[str, Any]]:
    for name, source in table(task.content, "inputs", "artifacts").items():
        output = table(source, "taskOutputArtifact")
        if output:
            yield name, _Made(f"{way}{output['producerTask']}", output["outputArtifactKey"])
        else:
            yield name, inputs.get(str(source.get("componentInputArtifact")))


def _of_the_run(value: Any) -> bool:
    """Whether an input names the run or its time."""
    _, parameters, *_ = value
    return any(isinstance(one, str) and _OF_THE_RUN.search(one) for one in parameters.values())
