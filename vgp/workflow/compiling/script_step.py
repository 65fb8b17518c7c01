"""Replaces a step's Python by the user's own command, and appends the step that collects the files of that command.

Each worker pool of a spec holds the launching text. It is compacted, because the program that starts the job receives
all pools in one argument, which Linux limits to 128 KiB.
"""

import ast
import copy
import io
import tokenize
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
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


def compact_source(text: str) -> str:
    """Returns a program without comments, docstrings and wide indents.

    The result does not depend on the version of Python, because it is part of Vertex AI's cache key.
    """
    text = _without_annotations(text)
    lines = text.splitlines()
    quoted: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        quoted.update(range(token.start[0], token.end[0]))  # all lines of a string but the first, counted from 0
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            count = (docstring.end_lineno or 0) - docstring.lineno + 1
            lines[docstring.lineno - 1 : docstring.end_lineno] = [""] * count
            if len(node.body) == 1:
                lines[docstring.lineno - 1] = " " * docstring.col_offset + '""'
    short = [line if number in quoted else _shorten_indent(line) for number, line in enumerate(lines)]
    return "\n".join(line for line in short if line) + "\n"


def _without_annotations(text: str) -> str:
    """Returns the program without the types of its functions, which nothing reads at run time.

    Only annotations that stand on one line are removed.
    """
    lines = [line.encode() for line in text.splitlines(keepends=True)]  # ast counts bytes
    for row, begin, end in sorted(_annotations(ast.parse(text)), reverse=True):
        head = lines[row - 1][:begin].removesuffix(b" -> ")
        lines[row - 1] = head + lines[row - 1][end:]
    return b"".join(lines).decode()


def _annotations(tree: ast.AST) -> Iterator[tuple[int, int, int]]:
    """Yields row, first and last column of the types of arguments, with their colon, and of results, without arrow."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation and node.lineno == node.end_lineno:
            yield node.lineno, node.col_offset + len(node.arg), node.end_col_offset or 0
        elif isinstance(node, ast.FunctionDef) and node.returns and node.returns.lineno == node.returns.end_lineno:
            yield node.returns.lineno, node.returns.col_offset, node.returns.end_col_offset or 0


def _shorten_indent(line: str) -> str:
    """Returns the line indented by one space for each four."""
    rest = line.lstrip(" ")
    return " " * ((len(line) - len(rest)) // 4) + rest


#: Prefix of the collect step's inputs that are outputs of the job.
_OUTPUT_PREFIX = "left_"


def set_image(component: "BaseComponent", request: Request, default: str) -> "BaseComponent":
    """Returns a copy of the component in its own image, else in that of the settings, else in `default`.

    Raises:
        RequestError: the component and the settings name different images.
    """
    copied = copy.deepcopy(component)
    container = copied.component_spec.implementation.container
    if container.image == IMAGE:
        container.image = request.image or default
    elif request.image and request.image != container.image:
        raise RequestError(
            f"[steps.{component.name}] image = {request.image}: the step's code names another image, "
            f"{container.image}. Drop the setting, or the base_image in the code."
        )
    return copied


def set_command(component: "BaseComponent", request: Request, form: "BaseComponent | None" = None) -> "BaseComponent":
    """Sets the command of the settings as the command of the component's container, and returns the component.

    Outputs stay unchanged. Inputs of the step `form` that the command names become inputs of the component.

    Raises:
        RequestError: the step has no outputs for a model and checkpoints, or a word of the command is invalid.
    """
    spec = component.component_spec
    script = Script(request.command or (), request.launch_method, spec.implementation.container.image)
    fields = {} if form is None else {**(form.component_spec.inputs or {})}
    _refuse_words(component.name, script, {**_list_parameter_types(spec.inputs), **_list_parameter_types(fields)})
    named = {name: fields[name] for name in sorted(script.names & set(_list_parameter_types(fields)))}
    spec.inputs = {**named, **(spec.inputs or {})}
    component._component_inputs.update(named)  # kfp reads a component's inputs only once, when it is created
    parameters = _list_parameter_types(spec.inputs)
    kinds = {name: _choose_word_kind(component.name, name, parameters[name]) for name in script.names & set(parameters)}
    container = spec.implementation.container
    container.command = [*START, _build_launching_text()]
    container.args = script.arguments(_list_uris(component), kinds)
    servers = request.parameter_server
    # Without CLUSTER_SPEC, on this machine, the launching text reads the number of servers from this variable.
    container.env = {**request.env, variables.PARAMETER_SERVERS: str(servers.count)} if servers else request.env or None
    return component


def _list_parameter_types(inputs: JsonView | None) -> dict[str, str]:
    """Returns the types of the inputs that are parameters, by name."""
    return {name: declared.type for name, declared in (inputs or {}).items() if "@" not in declared.type}


@cache
def _build_launching_text() -> str:
    return compact_source(join_package(launching))


def _choose_word_kind(step: str, name: str, declared: str) -> str:
    """Returns the launching text's name, `number` or `text`, for the type of a parameter.

    Raises:
        RequestError: the parameter is a table or a list, whose quotes would break the JSON of the worker pools.
    """
    if declared in ("Float", "Integer"):
        return "number"
    if declared in ("String", "Boolean"):
        return "text"
    raise RequestError(
        f"[steps.{step}] command: {{{name}}} is a table or a list, and a command can take only texts, numbers and "
        "booleans. Write its members into the command, or into a file that the script reads."
    )


def _list_uris(component: "BaseComponent") -> dict[str, str]:
    """Returns the placeholders of the URIs that the launching text needs, by name."""
    inputs, outputs = component.component_spec.inputs or {}, component.component_spec.outputs or {}
    missing = [name for name in ("model", "checkpoints") if name not in outputs]
    if missing:
        raise RequestError(
            f"[steps.{component.name}] command: a command writes a model and checkpoints, but the step has no output "
            f"{' and no output '.join(missing)}. Give the step outputs of these names."
        )
    data = "{{$.inputs.artifacts['dataset'].uri}}" if "dataset" in inputs else ""
    pins = "{{$.inputs.parameters['pins']}}" if "pins" in inputs else ""
    outputs = {name: f"{{{{$.outputs.artifacts['{name}'].uri}}}}" for name in ("model", "checkpoints")}
    return {"data": data, **outputs, "pins": pins}


def _refuse_words(step: str, script: Script, parameters: Collection[str]) -> None:
    """Raises RequestError if kfp would misread a word of the command, or a word names a misspelt parameter."""
    for word in script.command:
        if placeholders.within(word) or word.startswith(('{"Concat"', '{"IfPresent"')):
            raise RequestError(f"[steps.{step}] command: the word {word!r} {placeholders.RULE}")
    known = {*parameters, *OF_THE_RUN}
    for name in sorted(script.names - known):
        near = nearest(name, known, 0.7)
        if near:
            raise RequestError(f"[steps.{step}] command: {{{name}}} is no input of the step. Did you mean {{{near}}}?")


def append_collect(
    collect: "BaseComponent | None", job: "BaseComponent", form: "BaseComponent | None" = None
) -> "BaseComponent":
    """Returns a component that runs the job and then `collect`, whose outputs the workflow receives.

    Inputs that the job shares with the step `form` get the values of that step's task.

    Raises:
        RequestError: `collect` is None. Calling the component raises it if `collect` has an input that is neither an
            input nor an output of the job.
    """
    from kfp.dsl.base_component import BaseComponent

    step = str(job.component_spec.name)  # `job.name` can be the name of GCPC's wrapper
    if collect is None:
        raise RequestError(
            f"[steps.{step}] command: the workflow has no step that collects the files of a command. "
            f"Name one: target.job({step.replace('-', '_')}, collect=collect)."
        )

    last_step = collect

    class JobAndCollect(BaseComponent):  # type: ignore[misc]
        def __call__(self, *args: Any, **inputs: Any) -> Any:
            inputs = {**_find_form_inputs(form, job), **inputs}
            task = job(*args, **inputs)
            return last_step(**_choose_collect_inputs(last_step, job, inputs, task.outputs))

        def execute(self, **inputs: Any) -> None:
            job.execute(**inputs)

    return JobAndCollect(job.component_spec)


def _find_form_inputs(form: "BaseComponent", job: "BaseComponent") -> JsonObject:
    """Returns the inputs of the task of `form`, as far as the job has inputs of equal names and types."""
    from kfp.dsl.pipeline_context import Pipeline

    if form is None:
        return {}
    tasks = Pipeline.get_default_pipeline().tasks.values()
    form_inputs = (task.inputs for task in tasks if task.component_spec.name == form.component_spec.name)
    values: JsonObject = next(form_inputs, {})
    needed, declared = job.component_spec.inputs or {}, form.component_spec.inputs or {}
    return {name: values[name] for name in needed.keys() & values.keys() if needed[name].type == declared[name].type}


def _choose_collect_inputs(
    collect: "BaseComponent", job: "BaseComponent", inputs: JsonView, outputs: JsonView
) -> JsonObject:
    """Returns the inputs of `collect`: output X of the job for `left_X`, else the job's input of that name."""
    values: JsonObject = {}
    for name, declared in (collect.component_spec.inputs or {}).items():
        job_input = (job.component_spec.inputs or {}).get(name)
        if name.startswith(_OUTPUT_PREFIX) and name.removeprefix(_OUTPUT_PREFIX) in outputs:
            values[name] = outputs[name.removeprefix(_OUTPUT_PREFIX)]
        elif name in inputs:
            values[name] = inputs[name]
        elif job_input is not None and job_input.default is not None:
            values[name] = job_input.default
        elif not declared.optional:
            raise RequestError(
                f"{collect.name} has an input {name}, which is neither an input nor an output of "
                f"{job.component_spec.name}. Rename it, or make it optional."
            )
    return values


def join_package(package: ModuleType) -> str:
    """Returns one program of a package: its `__main__` after the modules that it imports, in order of their imports.

    The modules share one namespace, so none may define a name of another, or import one under an alias.
    """
    texts: dict[str, str] = {}
    _add_module(f"{package.__name__}.__main__", Path(package.__path__[0]), texts)
    return "from __future__ import annotations\n" + "".join(texts.values())


def _add_module(module: str, folder: Path, texts: dict[str, str]) -> None:
    """Adds the text of a module to `texts`, without its docstring and without imports from the package."""
    package, _, name = module.rpartition(".")
    text = (folder / f"{name}.py").read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for node in ast.parse(text).body:
        source = node.module or "" if isinstance(node, ast.ImportFrom) else ""
        if source.rpartition(".")[0] == package and source not in texts:
            _add_module(source, folder, texts)
        if source == "__future__" or source.startswith(f"{package}.") or _is_docstring(node):
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
    texts[module] = "".join(lines)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
