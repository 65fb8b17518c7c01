"""The tasks of a pipeline and the components that they run, as a compiled spec has them.

A spec that Google gives back may be anything: what does not fit reads as if it were not there.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

Json = Mapping[str, Any]
#: The name that kfp gives to the group of tasks in `with dsl.ExitHandler(...)`.
_EXIT_HANDLER = re.compile(r"exit-handler-\d+")


def table(value: object, *keys: str) -> Json:
    """The object at `keys`; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True)
class Output:
    """A parameter that a task hands out."""

    task: str
    key: str


@dataclass(frozen=True)
class Loop:
    """A ParallelFor over values that the spec holds, or that an input of the task gives."""

    item: str
    raw: str | None = None
    input: str = ""
    #: How many iterations run at once; 0: as many as there are.
    limit: int = 0

    def items(self, inputs: Json) -> list[Any]:
        values = self.raw if self.raw is not None else inputs.get(self.input, [])
        return list(json.loads(values) if isinstance(values, str) else values)


@dataclass(frozen=True, eq=False)
class Task:
    """A node of a DAG: a step, or a group of tasks (a condition, a loop, an exit handler, a nested pipeline)."""

    name: str
    content: Json
    component: "Component"

    @property
    def condition(self) -> str:
        return str(table(self.content, "triggerPolicy").get("condition") or "")

    @property
    def dependencies(self) -> tuple[str, ...]:
        """Tasks of the same DAG that it waits for."""
        names = self.content.get("dependentTasks")
        return tuple(map(str, names)) if isinstance(names, list) else ()

    @property
    def is_loop(self) -> bool:
        return bool({"parameterIterator", "artifactIterator"} & set(self.content))

    @property
    def loop(self) -> Loop | None:
        iterator = table(self.content, "parameterIterator")
        if not iterator:
            return None
        items, limit = table(iterator, "items"), table(self.content, "iteratorPolicy").get("parallelismLimit", 0)
        return Loop(iterator.get("itemInput", ""), items.get("raw"), items.get("inputParameter", ""), int(limit))

    @property
    def way(self) -> str:
        """What it adds to the way to the tasks inside: `for-loop-1/`; an exit handler or a branch nothing.

        kfp gives the tasks of a pipeline names of their own, in whatever branch they are.
        """
        return "" if self.is_exit_handler or (self.condition and not self.is_loop) else f"{self.name}/"

    @property
    def is_exit_handler(self) -> bool:
        """Whether it is the group of tasks in `with dsl.ExitHandler(...)`."""
        return bool(_EXIT_HANDLER.fullmatch(self.name)) and not self.condition and not self.is_loop

    @property
    def is_cached(self) -> bool:
        """Whether it may take the result of an earlier run."""
        return bool(table(self.content, "cachingOptions").get("enableCache"))

    @property
    def producers(self) -> set[str]:
        """Tasks of the same DAG whose outputs it takes."""
        inputs = [
            *table(self.content, "inputs", "parameters").values(),
            *table(self.content, "inputs", "artifacts").values(),
        ]
        outputs = [table(source, "taskOutputParameter") or table(source, "taskOutputArtifact") for source in inputs]
        return {str(output["producerTask"]) for output in outputs if "producerTask" in output}

    def inputs(self, values: Json, outputs: Mapping[Output, Any]) -> dict[str, Any]:
        """Its parameters, as far as they are known from those of the group around it and from outputs of others."""
        known: dict[str, Any] = {}
        for name, source in table(self.content, "inputs", "parameters").items():
            parameter, output = source.get("componentInputParameter"), table(source, "taskOutputParameter")
            key = Output(output.get("producerTask", ""), output.get("outputParameterKey", ""))
            if parameter in values:
                known[name] = values[parameter]
            elif "runtimeValue" in source:
                known[name] = source["runtimeValue"].get("constant")
            elif key in outputs:
                known[name] = outputs[key]
        return known


@dataclass(frozen=True, eq=False)
class Component:
    """What a task runs: an executor, or the DAG of a group."""

    name: str
    content: Json
    components: Json = field(repr=False)

    @property
    def is_group(self) -> bool:
        return "dag" in self.content

    @property
    def executor(self) -> str:
        return str(self.content.get("executorLabel", ""))

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks of the group by name: producers first; names decide between independent ones."""
        tasks = {name: self._task(name, content) for name, content in table(self.content, "dag", "tasks").items()}
        done: dict[str, Task] = {}
        while tasks:
            ready = (name for name in sorted(tasks) if not set(tasks[name].dependencies) & tasks.keys())
            name = next(ready, min(tasks))  # a cycle: nobody runs it, and this must end all the same
            done[name] = tasks.pop(name)
        return done

    def _task(self, name: str, content: object) -> Task:
        reference = str(table(content, "componentRef").get("name", ""))
        return Task(name, table(content), Component(reference, table(self.components, reference), self.components))

    def outputs(self) -> Iterator[tuple[str, list[Output]]]:
        """What the group hands out under which name, and the tasks in it that may give it."""
        for name, source in table(self.content, "dag", "outputs", "parameters").items():
            chosen = table(source, "valueFromOneof").get("parameterSelectors", [table(source, "valueFromParameter")])
            yield name, [Output(at.get("producerSubtask", ""), at.get("outputParameterKey", "")) for at in chosen]
