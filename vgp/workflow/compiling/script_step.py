"""A command of the user's own in place of a step's Python, and the step that takes up what it leaves.

Each worker pool of a spec carries the launching text, and what starts the job gets all pools in one argument, of which
Linux takes 128 KiB.
"""

import copy
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any

from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.base.errors import RequestError
from vgp.base.text.nearest import nearest
from vgp.check.spec.container_settings import OF_THE_RUN, START, Script
from vgp.machines.placement.step_request import Request
from vgp.protocol import environment as variables
from vgp.protocol import launching, placeholders
from vgp.protocol.placeholders import IMAGE

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent
import ast
import io
import tokenize
from pathlib import Path
from types import ModuleType


def compact(text: str) -> str:
    """The same program in fewer characters; the same on every version of Python, since caching goes by it."""
    lines = text.splitlines()
    quoted: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        quoted.update(range(token.start[0], token.end[0]))  # the lines of a text but the first, counted from 0
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            words = node.body[0]
            lines[words.lineno - 1 : words.end_lineno] = [""] * ((words.end_lineno or 0) - words.lineno + 1)
            if len(node.body) == 1:
                lines[words.lineno - 1] = " " * words.col_offset + '""'
    short = [line if number in quoted else _indented(line) for number, line in enumerate(lines)]
    return "\n".join(line for line in short if line) + "\n"


def _indented(line: str) -> str:
    """By one space for each four."""
    rest = line.lstrip(" ")
    return " " * ((len(line) - len(rest)) // 4) + rest


#: What collect takes of the job's outputs has their names after this.
_LEFT = "left_"


def in_image(component: "BaseComponent", request: Request, default: str) -> "BaseComponent":
    """A copy of the component, in the image that the settings have for it unless it names one of its own.

    Raises:
        RequestError: both name one.
    """
    copied = copy.deepcopy(component)
    container = copied.component_spec.implementation.container
    if container.image == IMAGE:
        container.image = request.image or default
    elif request.image and request.image != container.image:
        raise RequestError(
            f"[steps.{component.name}] image = {request.image}: the step's code names its own, {container.image}, "
            "and that one stays. Drop the setting, or the base_image."
        )
    return copied


def with_command(component: "BaseComponent", request: Request, form: "BaseComponent | None" = None) -> "BaseComponent":
    """The component with its container started by the command of the settings.

    Outputs stay as they are; inputs of the step `form` that the command names become inputs, too.

    Raises:
        RequestError: the step has no outputs to leave a model and checkpoints in, or a word has no meaning.
    """
    spec = component.component_spec
    script = Script(request.command or (), request.launch_method, spec.implementation.container.image)
    fields = {} if form is None else {**(form.component_spec.inputs or {})}
    _refuse_words(component.name, script, {**_parameters(spec.inputs), **_parameters(fields)})
    named = {name: fields[name] for name in sorted(script.names & set(_parameters(fields)))}
    spec.inputs = {**named, **(spec.inputs or {})}
    component._component_inputs.update(named)  # kfp notes them when a component is made
    parameters = _parameters(spec.inputs)
    kinds = {name: _kind(component.name, name, parameters[name]) for name in script.names & set(parameters)}
    container = spec.implementation.container
    container.command = [*START, _launching()]
    container.args = script.arguments(_artifacts(component), kinds)
    servers = request.parameter_server
    # Read by the launching text where no CLUSTER_SPEC tells of the servers: on this machine.
    container.env = {**request.env, variables.PARAMETER_SERVERS: str(servers.count)} if servers else request.env or None
    return component


def _parameters(inputs: JsonView | None) -> dict[str, str]:
    """The types of the inputs that are parameters, by name."""
    return {name: declared.type for name, declared in (inputs or {}).items() if "@" not in declared.type}


@cache
def _launching() -> str:
    return compact(joined_package(launching))


def _kind(step: str, name: str, declared: str) -> str:
    """How the launching text writes a parameter in a word.

    Raises:
        RequestError: it is a table or a list. Worker pools are JSON made by concatenation, which quotes would break.
    """
    if declared in ("Float", "Integer"):
        return "number"
    if declared in ("String", "Boolean"):
        return "text"
    raise RequestError(
        f"[steps.{step}] command: {{{name}}} is a table or a list, and only texts, numbers and true or false reach a "
        "command. Write its members into the command, or into a file that the script reads."
    )


def _artifacts(component: "BaseComponent") -> dict[str, str]:
    """The URIs that the launching text works with, as placeholders."""
    inputs, outputs = component.component_spec.inputs or {}, component.component_spec.outputs or {}
    missing = [name for name in ("model", "checkpoints") if name not in outputs]
    if missing:
        raise RequestError(
            f"[steps.{component.name}] command: it leaves a model and checkpoints, and the step has no output "
            f"{' and no output '.join(missing)}. Give it outputs of these names."
        )
    data = "{{$.inputs.artifacts['dataset'].uri}}" if "dataset" in inputs else ""
    pins = "{{$.inputs.parameters['pins']}}" if "pins" in inputs else ""
    left = {name: f"{{{{$.outputs.artifacts['{name}'].uri}}}}" for name in ("model", "checkpoints")}
    return {"data": data, **left, "pins": pins}


def _refuse_words(step: str, script: Script, parameters: Collection[str]) -> None:
    """Raises RequestError: kfp would read a word as something else, or it holds a slip of a name."""
    for word in script.command:
        if placeholders.within(word) or word.startswith(('{"Concat"', '{"IfPresent"')):
            raise RequestError(f"[steps.{step}] command: the word {word!r} {placeholders.RULE}")
    known = {*parameters, *OF_THE_RUN}
    for name in sorted(script.names - known):
        near = nearest(name, known, 0.7)
        if near:
            raise RequestError(f"[steps.{step}] command: nothing stands for {{{name}}}. Did you mean {{{near}}}?")


def followed_by(
    collect: "BaseComponent | None", job: "BaseComponent", form: "BaseComponent | None" = None
) -> "BaseComponent":
    """The job, each of its tasks followed by one of `collect`, whose outputs the workflow sees.

    What the job takes of the step `form` are the values that this step was given.

    Raises:
        RequestError: there is none; when called: it takes what the job neither has nor leaves.
    """
    from kfp.dsl.base_component import BaseComponent

    step = str(job.component_spec.name)  # a custom job's component has GCPC's name beside
    if collect is None:
        raise RequestError(
            f"[steps.{step}] command: the workflow has no step that takes up what a command leaves. "
            f"Name one: target.job({step.replace('-', '_')}, collect=collect)."
        )

    last = collect

    class Followed(BaseComponent):  # type: ignore[misc]
        def __call__(self, *args: Any, **inputs: Any) -> Any:
            inputs = {**_given(form, job), **inputs}
            left = job(*args, **inputs)
            return last(**_taken(last, job, inputs, left.outputs))

        def execute(self, **inputs: Any) -> None:
            job.execute(**inputs)

    return Followed(job.component_spec)


def _given(form: "BaseComponent", job: "BaseComponent") -> JsonObject:
    """What the task of `form` in the workflow was given, as far as the job has an input of that name and kind."""
    from kfp.dsl.pipeline_context import Pipeline

    if form is None:
        return {}
    tasks = Pipeline.get_default_pipeline().tasks.values()
    same = (task.inputs for task in tasks if task.component_spec.name == form.component_spec.name)
    given: JsonObject = next(same, {})
    wanted, own = job.component_spec.inputs or {}, form.component_spec.inputs or {}
    return {name: given[name] for name in wanted.keys() & given.keys() if wanted[name].type == own[name].type}


def _taken(collect: "BaseComponent", job: "BaseComponent", inputs: JsonView, left: JsonView) -> JsonObject:
    """The inputs of collect: left_X is output X of the job, any other the job's own input of that name."""
    taken: JsonObject = {}
    for name, wanted in (collect.component_spec.inputs or {}).items():
        own = (job.component_spec.inputs or {}).get(name)
        if name.startswith(_LEFT) and name.removeprefix(_LEFT) in left:
            taken[name] = left[name.removeprefix(_LEFT)]
        elif name in inputs:
            taken[name] = inputs[name]
        elif own is not None and own.default is not None:
            taken[name] = own.default
        elif not wanted.optional:
            raise RequestError(f"{collect.name} takes {name}, which {job.component_spec.name} neither has nor leaves.")
    return taken


def joined_package(package: ModuleType) -> str:
    """Its `__main__` behind the modules that it imports, each behind those that it imports itself.

    All share one namespace: a name means the same in each module, and is imported by that name.
    """
    texts: dict[str, str] = {}
    _add(f"{package.__name__}.__main__", Path(package.__path__[0]), texts)
    return "from __future__ import annotations\n" + "".join(texts.values())


def _add(module: str, folder: Path, texts: dict[str, str]) -> None:
    """Adds the text of a module, without its docstring and the imports that its place in the program makes needless."""
    package, _, name = module.rpartition(".")
    text = (folder / f"{name}.py").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        source = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if source.rpartition(".")[0] == package and source not in texts:
            _add(source, folder, texts)
        if source == "__future__" or source.startswith(f"{package}.") or _is_text(node):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
    texts[module] = "".join(lines)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
