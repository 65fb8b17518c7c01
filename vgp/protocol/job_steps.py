"""The steps of a run with their states and results, from its PipelineJob in Vertex AI's REST API.

Groups (loops, conditions, the exit handler) and exit tasks are not steps: a group only contains steps, and an exit task
reports on them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from vgp.base.documents.json_text import JsonObject

#: PipelineTaskDetail.State -> the state shown; other states are shown in lower case.
_STATES = {
    "": "unknown",
    "STATE_UNSPECIFIED": "unknown",
    "SKIPPED": "cached",
    "NOT_TRIGGERED": "not triggered",
    "CANCEL_PENDING": "cancelling",
}
#: Vertex AI's name of an output: <root>/<project number>/<run>/<step>_<task id>/<output>.
_OUTPUT = re.compile(r"gs://.+/\d+/(?P<run>[a-z][-a-z0-9]{0,127})/[^/]+_-?\d+/[^/]+/?")
#: A step with such a parameter never has a cache hit, because the value differs for every run.
_OF_THIS_RUN = re.compile(r"\{\{\$\.pipeline_job_(?:name|uuid|resource_name)")
_DEFINITIONS = ("outputDefinitions", "inputDefinitions")
_MODEL = "system.Model"
_RUN_TITLES = ("system.Run", "system.PipelineRun")


@dataclass(frozen=True)
class Step:
    """The state and results of one task that does work."""

    name: str
    #: The name in the spec, without the number of an iteration.
    task: str
    #: succeeded, cached, failed, cancelled, not triggered, running ...
    state: str
    #: Duration; None if it did not run.
    seconds: float | None = None
    ended: datetime | None = None
    error: str = ""
    #: For a cached step, the run that computed the results; empty if the outputs' URIs do not show it.
    since: str = ""
    #: Whether it trains a model, and whether it may have a cache hit.
    trains: bool = False
    pinned: bool = False
    #: Output parameters, and URIs of HTML outputs.
    returned: JsonObject = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)


def steps_of(job: JsonObject) -> list[Step]:
    """Returns the steps of a PipelineJob in the order in which they began; iterations of a loop are numbered."""
    spec = _Spec(table(job, "pipelineSpec"))
    run = str(job.get("name", "")).rpartition("/")[2]
    details = [detail for detail in items(table(job, "jobDetail"), "taskDetails") if isinstance(detail, dict)]
    parents = {detail.get("parentTaskId") for detail in details}
    leaves = [
        detail
        for detail in sorted(details, key=_start_order)
        if detail.get("taskId") not in parents and not _is_the_run(detail, run) and spec.is_step(_name(detail))
    ]
    names = [_name(detail) for detail in leaves]
    return [_step(detail, _label(names, number), spec, run) for number, detail in enumerate(leaves)]


def table(values: JsonObject, key: str) -> JsonObject:
    """Returns the object at `key`, or an empty one."""
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def items(values: JsonObject, key: str) -> list[Any]:
    """Returns the list at `key`, or an empty one."""
    value = values.get(key)
    return value if isinstance(value, list) else []


def moment(value: object) -> datetime | None:
    """Parses a timestamp of the REST API; None if it is not one."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time if time and time.tzinfo else None


class _Spec:
    """A compiled pipeline, with questions about its tasks by name."""

    def __init__(self, content: JsonObject) -> None:
        self.components = table(content, "components")
        self.root = table(content, "root")

    @cached_property
    def tasks(self) -> dict[str, JsonObject]:
        groups = [self.root, *(group for group in self.components.values() if isinstance(group, dict))]
        return {
            name: task
            for group in groups
            for name, task in table(table(group, "dag"), "tasks").items()
            if isinstance(task, dict)
        }

    def is_step(self, name: str) -> bool:
        sources = _list_sources(self.tasks.get(name, {}))
        return "dag" not in self.component(name) and not any("taskFinalStatus" in source for source in sources)

    def component(self, name: str) -> JsonObject:
        return table(self.components, str(table(self.tasks.get(name, {}), "componentRef").get("name", "")))

    def trains(self, name: str) -> bool:
        """Whether the step has a model as an output and none as an input; a step that registers a model has both."""
        component = self.component(name)
        outputs, inputs = (
            [table(artifact, "artifactType").get("schemaTitle") for artifact in definitions.values()]
            for definitions in (table(table(component, key), "artifacts") for key in _DEFINITIONS)
        )
        return _MODEL in outputs and _MODEL not in inputs

    def is_pinned(self, name: str) -> bool:
        task = self.tasks.get(name, {})
        constants = [str(table(source, "runtimeValue").get("constant", "")) for source in _list_sources(task)]
        return bool(table(task, "cachingOptions").get("enableCache")) and not any(map(_OF_THIS_RUN.search, constants))


def _list_sources(task: JsonObject) -> list[JsonObject]:
    parameters = table(table(task, "inputs"), "parameters")
    return [source for source in parameters.values() if isinstance(source, dict)]


def _step(detail: JsonObject, label: str, spec: _Spec, run: str) -> Step:
    state = str(detail.get("state", ""))
    shown_state = _STATES.get(state, state.lower())
    name, begin, end = _name(detail), moment(detail.get("startTime")), moment(detail.get("endTime"))
    did_run = begin and end and shown_state not in ("cached", "not triggered", "pending")
    return Step(
        label,
        name,
        shown_state,
        seconds=max(0.0, (end - begin).total_seconds()) if did_run and begin and end else None,
        ended=end,
        error=str(table(detail, "error").get("message", "")),
        since=_source_run(detail, run) if shown_state == "cached" else "",
        trains=spec.trains(name),
        pinned=spec.is_pinned(name),
        returned=_read_output_parameters(detail),
        pages={key: uri for key, title, uri in _artifacts(detail) if title == "system.HTML"},
    )


def _source_run(detail: JsonObject, run: str) -> str:
    """Returns the other run whose folder contains the outputs of a cached step, or ""."""
    runs = [match["run"] for _, _, uri in _artifacts(detail) if (match := _OUTPUT.fullmatch(uri))]
    return next((other for other in runs if other != run), "")


def _artifacts(detail: JsonObject) -> Iterator[tuple[str, str, str]]:
    """Yields name, type and URI of each output artifact."""
    for key in sorted(table(detail, "outputs")):
        for artifact in items(table(table(detail, "outputs"), key), "artifacts"):
            if isinstance(artifact, dict):
                yield key, str(artifact.get("schemaTitle", "")), str(artifact.get("uri", ""))


def _read_output_parameters(detail: JsonObject) -> JsonObject:
    metadata = table(table(detail, "execution"), "metadata")
    return {key.removeprefix("output:"): value for key, value in metadata.items() if key.startswith("output:")}


def _name(detail: JsonObject) -> str:
    return str(detail.get("taskName", ""))


def _label(names: list[str], number: int) -> str:
    name = names[number]
    return f"{name}[{names[:number].count(name)}]" if names.count(name) > 1 else name


def _is_the_run(detail: JsonObject, run: str) -> bool:
    return _name(detail) == run or table(detail, "execution").get("schemaTitle") in _RUN_TITLES


def _start_order(detail: JsonObject) -> tuple[float, str]:
    time = moment(detail.get("startTime")) or moment(detail.get("createTime"))
    return (time.timestamp() if time else 0.0, str(detail.get("taskId", "")).rjust(20))
