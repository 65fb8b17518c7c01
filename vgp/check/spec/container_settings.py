"""The commands of a compiled spec's containers that users provide, with their arguments.

    sh -c 'exec "$(command -v python3 ...)" -I -c "$0" "$@"' TEXT --launch torchrun --data ... -- python train.py

TEXT is vgp/protocol/launching in one: nothing of ours needs to be in the image.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgp.base.errors import RequestError
from vgp.base.text.figures import number
from vgp.check.spec import spec_ladder
from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement import combination

#: Start of a container; the launching text follows as $0. An image may have only one of the two names.
#: Isolated (-I): the launching text must not import a queue.py of the working folder.
START = ("sh", "-c", 'exec "$(command -v python3 || command -v python)" -I -c "$0" "$@"')
#: Placeholders that the launching text replaces with paths and numbers, in every word.
OF_THE_RUN = ("data", "model", "checkpoints", "logs", "nodes", "node", "processes", "chief", "port")
_NAME = re.compile(r"\{([A-Za-z_]\w*)\}")


@dataclass(frozen=True)
class Script:
    """The command of a step, with its image and environment."""

    command: tuple[str, ...]
    launch: str
    image: str

    @property
    def names(self) -> set[str]:
        """Returns every NAME in a word {NAME}, without the run's own, which have precedence."""
        return {name for word in self.command for name in _NAME.findall(word)} - set(OF_THE_RUN)

    @property
    def key(self) -> str:
        """Returns a checksum, which separates the checkpoints of different commands and images."""
        text = json.dumps([self.command, self.launch, self.image])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def arguments(self, artifacts: Mapping[str, str], parameters: Mapping[str, str]) -> list[str]:
        """Returns the words after the launching text.

        Args:
            artifacts: URIs by the names of the launching text's options.
            parameters: Type (number or text) of each parameter in a word.
        """
        options = [word for name, uri in artifacts.items() for word in (f"--{name}", uri)]
        for name, kind in sorted(parameters.items()):
            options += [f"--{kind}", f"{name}={{{{$.inputs.parameters['{name}']}}}}"]
        return ["--launch", self.launch, *options, "--key", self.key, "--", *self.command]


def read(container: Mapping[str, object]) -> Script | None:
    """Returns the command that the launching text starts in a container or a worker pool's; None for others."""
    command, arguments = container.get("command"), container.get("args")
    if not isinstance(command, list) or not isinstance(arguments, list):
        return None
    command = combination.without_network(command)
    if tuple(command[:3]) != START:
        return None
    words = [str(word) for word in arguments]
    options = words[: words.index("--")] if "--" in words else []
    if len(command) != 4 or "--launch" not in options[:-1]:
        return None
    launch = options[options.index("--launch") + 1]
    image = container.get("image") or container.get("image_uri") or container.get("imageUri") or ""
    return Script(tuple(words[len(options) + 1 :]), launch, str(image))


def artifacts(words: Sequence[str]) -> dict[str, str]:
    """Returns URIs by the launching text's options, from the words of its start."""
    return {name: words[words.index(f"--{name}") + 1] for name in ("data", "model", "checkpoints")}


def scripts(spec: PipelineSpec) -> dict[str, Script]:
    """Returns the commands of a spec for this machine or for custom jobs, by the names of their components."""
    every = {name.removeprefix("comp-"): _read_script(spec, component) for name, component in spec.components.items()}
    return {name: script for name, script in every.items() if script}


def _read_script(spec: PipelineSpec, component: Component) -> Script | None:
    pools = table(component.content, "inputDefinitions", "parameters", "worker_pool_specs").get("defaultValue")
    if isinstance(pools, list) and pools:
        return read(table(pools[0], "container_spec"))
    container = table(spec.executor(component), "container")
    return read(spec_ladder.first_container(container) or container)


#: The first step accepts every parameter, only to check it.
_CHECKS = "resolve"
#: Input of a step that holds the settings of its own Python.
_SETTINGS = "config"
#: Worker pools are JSON made by concatenation, in which these characters would end a text.
_UNSAFE = re.compile(r'["\\\x00-\x1f]')


@dataclass(frozen=True)
class _Parameter:
    """Marks a parameter of the pipeline on its way to the steps."""

    name: str


def refuse_arguments(
    spec: PipelineSpec, arguments: Mapping[str, object], *, remote: bool, settings: Collection[str] = ()
) -> None:
    """Raises RequestError if an argument has no effect, because the step's command does not use it.

    Args:
        spec: The compiled pipeline.
        arguments: Arguments of a run; other parameters have their defaults.
        remote: Whether the run is on Vertex AI.
        settings: Parameters that reach the step's own Python as one value, its input `config`.
    """
    commands = scripts(spec)
    if not commands:
        return
    sized = spec_ladder.size_choices(spec)
    takers = list(_list_takers(spec.root, {name: _Parameter(name) for name in spec.parameters}))
    for task, inputs in takers:
        script = commands.get(task.component.name.removeprefix("comp-"))
        if script is None:
            continue
        elsewhere = [taken for other, taken in takers if other is not task and other.name != _CHECKS]
        others = {parameter for taken in elsewhere for parameter in taken.values()}
        if _SETTINGS in table(task.content, "inputs", "parameters"):
            inputs = {**{name: name for name in settings if name in spec.parameters}, **inputs}
        for name, parameter in inputs.items():
            if parameter in sized:
                continue  # fields of the machines, not of the command
            value = arguments.get(parameter, spec.defaults.get(parameter))
            if name not in script.names and parameter not in others:
                _refuse_unused(spec, task.name, name, parameter, value)
            elif name in script.names and remote and isinstance(value, str) and _UNSAFE.search(value):
                raise RequestError(
                    f"{parameter} = {value!r}: the command of [steps.{task.name}] uses it, and on Vertex AI no "
                    "quotation mark, backslash or line break can be passed by a parameter. Write it into the command."
                )


def _refuse_unused(spec: PipelineSpec, step: str, name: str, parameter: str, value: object) -> None:
    default = spec.defaults.get(parameter)
    if value == default:
        return
    if spec.parameters[parameter].type in ("STRUCT", "LIST"):
        fix = "It is a setting of the step's own Python. Write the command's values into the command"
    else:
        fix = f"Write {{{name}}} into the command"
    shown = number(default) if isinstance(default, float) else repr(default)
    raise RequestError(
        f"the command of [steps.{step}] does not use {parameter}. {fix}, or leave {parameter} at its default, {shown}."
    )


def _list_takers(group: Component, values: Mapping[str, object]) -> Iterator[tuple[Task, dict[str, str]]]:
    """Yields every task that does work, with the pipeline parameters that it uses, by the names of its inputs."""
    for task in group.tasks.values():
        taken = {name: value for name, value in task.inputs(values, {}).items() if isinstance(value, _Parameter)}
        if task.component.is_group:
            yield from _list_takers(task.component, taken)
        else:
            yield task, {name: parameter.name for name, parameter in taken.items()}
