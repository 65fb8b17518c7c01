"""The steps of a run, from its PipelineJob as Vertex AI's REST API gives it: what became of each, and who made it.

Groups (loops, conditions, the exit handler itself) and exit tasks are no steps: the first only hold some, the second
tell of them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from vgp.base.documents.json_text import JsonObject

#: PipelineTaskDetail.State -> our word, where lower case would not do.
_STATES = {
    "": "unknown",
    "STATE_UNSPECIFIED": "unknown",
    "SKIPPED": "cached",
    "NOT_TRIGGERED": "not triggered",
    "CANCEL_PENDING": "cancelling",
}
#: <root>/<project number>/<run>/<step>_<task id>/<output>, as Vertex AI names what a step writes.
_OUTPUT = re.compile(r"gs://.+/\d+/(?P<run>[a-z][-a-z0-9]{0,127})/[^/]+_-?\d+/[^/]+/?")
#: A step that is told the name of its run is never the same step again.
_OF_THIS_RUN = re.compile(r"\{\{\$\.pipeline_job_(?:name|uuid|resource_name)")
_DEFINITIONS = ("outputDefinitions", "inputDefinitions")
_MODEL = "system.Model"
_RUN_TITLES = ("system.Run", "system.PipelineRun")


@dataclass(frozen=True)
class Step:
    """What became of one task that does work."""

    name: str
    #: How the spec calls it: the name without the number of an iteration.
    task: str
    #: succeeded, cached, failed, cancelled, not triggered, running ...
    state: str
    #: How long it ran; None if it did not.
    seconds: float | None = None
    ended: datetime | None = None
    error: str = ""
    #: The run that made the results which a cached step took; empty where no URI tells.
    since: str = ""
    #: Whether it makes a model, and whether it may take results of earlier runs.
    trains: bool = False
    pinned: bool = False
    #: Parameters that it returned, and URIs of its pages.
    returned: JsonObject = field(default_factory=dict)
    pages: Mapping[str, str] = field(default_factory=dict)


def steps_of(job: JsonObject) -> list[Step]:
    """The steps that Google lists, in the order in which they began; iterations of a loop are numbered."""
    spec = _Spec(table(job, "pipelineSpec"))
    run = str(job.get("name", "")).rpartition("/")[2]
    details = [detail for detail in items(table(job, "jobDetail"), "taskDetails") if isinstance(detail, dict)]
    parents = {detail.get("parentTaskId") for detail in details}
    leaves = [
        detail
        for detail in sorted(details, key=_begin)
        if detail.get("taskId") not in parents and not _is_the_run(detail, run) and spec.is_step(_name(detail))
    ]
    names = [_name(detail) for detail in leaves]
    return [_step(detail, _label(names, number), spec, run) for number, detail in enumerate(leaves)]


def table(values: JsonObject, key: str) -> JsonObject:
    """The object below `key`; empty where there is none."""
    value = values.get(key)
    return value if isinstance(value, dict) else {}


def items(values: JsonObject, key: str) -> list[Any]:
    """The list below `key`; empty where there is none."""
    value = values.get(key)
    return value if isinstance(value, list) else []


def moment(value: object) -> datetime | None:
    """A timestamp of the REST API."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return time if time and time.tzinfo else None


class _Spec:
    """What a compiled pipeline says of its tasks, by their names."""

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
        sources = _sources(self.tasks.get(name, {}))
        return "dag" not in self.component(name) and not any("taskFinalStatus" in source for source in sources)

    def component(self, name: str) -> JsonObject:
        return table(self.components, str(table(self.tasks.get(name, {}), "componentRef").get("name", "")))

    def trains(self, name: str) -> bool:
        """Whether the step makes a model, and not out of one, as what takes up or registers a model does."""
        component = self.component(name)
        made, taken = (
            [table(artifact, "artifactType").get("schemaTitle") for artifact in definitions.values()]
            for definitions in (table(table(component, key), "artifacts") for key in _DEFINITIONS)
        )
        return _MODEL in made and _MODEL not in taken

    def is_pinned(self, name: str) -> bool:
        task = self.tasks.get(name, {})
        constants = [str(table(source, "runtimeValue").get("constant", "")) for source in _sources(task)]
        return bool(table(task, "cachingOptions").get("enableCache")) and not any(map(_OF_THIS_RUN.search, constants))


def _sources(task: JsonObject) -> list[JsonObject]:
    parameters = table(table(task, "inputs"), "parameters")
    return [source for source in parameters.values() if isinstance(source, dict)]


def _step(detail: JsonObject, label: str, spec: _Spec, run: str) -> Step:
    state = str(detail.get("state", ""))
    word = _STATES.get(state, state.lower())
    name, begin, end = _name(detail), moment(detail.get("startTime")), moment(detail.get("endTime"))
    did_run = begin and end and word not in ("cached", "not triggered", "pending")
    return Step(
        label,
        name,
        word,
        seconds=max(0.0, (end - begin).total_seconds()) if did_run and begin and end else None,
        ended=end,
        error=str(table(detail, "error").get("message", "")),
        since=_maker(detail, run) if word == "cached" else "",
        trains=spec.trains(name),
        pinned=spec.is_pinned(name),
        returned=_returned(detail),
        pages={key: uri for key, title, uri in _artifacts(detail) if title == "system.HTML"},
    )


def _maker(detail: JsonObject, run: str) -> str:
    """The run in whose folder the results of a cached step lie."""
    homes = [home["run"] for _, _, uri in _artifacts(detail) if (home := _OUTPUT.fullmatch(uri))]
    return next((home for home in homes if home != run), "")


def _artifacts(detail: JsonObject) -> Iterator[tuple[str, str, str]]:
    """Name, type and URI of every output."""
    for key in sorted(table(detail, "outputs")):
        for artifact in items(table(table(detail, "outputs"), key), "artifacts"):
            if isinstance(artifact, dict):
                yield key, str(artifact.get("schemaTitle", "")), str(artifact.get("uri", ""))


def _returned(detail: JsonObject) -> JsonObject:
    metadata = table(table(detail, "execution"), "metadata")
    return {key.removeprefix("output:"): value for key, value in metadata.items() if key.startswith("output:")}


def _name(detail: JsonObject) -> str:
    return str(detail.get("taskName", ""))


def _label(names: list[str], number: int) -> str:
    name = names[number]
    return f"{name}[{names[:number].count(name)}]" if names.count(name) > 1 else name


def _is_the_run(detail: JsonObject, run: str) -> bool:
    return _name(detail) == run or table(detail, "execution").get("schemaTitle") in _RUN_TITLES


def _begin(detail: JsonObject) -> tuple[float, str]:
    time = moment(detail.get("startTime")) or moment(detail.get("createTime"))
    return (time.timestamp() if time else 0.0, str(detail.get("taskId", "")).rjust(20))
