"""Finds, imports and compiles the workflows of a repository, and calls the functions by which they check arguments."""

import importlib.util
import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import vgp
from vgp.base.documents.json_text import JsonObject, JsonView
from vgp.base.errors import RequestError
from vgp.base.text.figures import join_words
from vgp.check import container_facts
from vgp.check.spec import container_settings, spec_ladder
from vgp.check.spec.container_settings import scripts
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_ladder import refuse_same_inputs
from vgp.protocol.imports import search_repository_first
from vgp.settings.repository import Repository, find_workflow, find_workflows
from vgp.workflow import kfp_package
from vgp.workflow.compiling.compile_target import Local, Target
from vgp.workflow.compiling.placing import complete_spec, use_target

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent

__all__ = [
    "check_arguments",
    "compile_workflow",
    "expand_arguments",
    "find_workflows",
    "find_workflow",
    "load",
    "check_sources",
    "list_members",
]

_LIBRARY = Path(vgp.__file__).parent


def load(path: Path, repository: Repository, target: Target | None = None) -> ModuleType:
    """Returns the module of the workflow at `path`.

    A workflow with a function `build` is imported once, any other once for each `target`, because its import places its
    steps.

    Raises:
        RequestError: the file cannot be imported, or holds no workflow; the message has file and line.
    """
    search_repository_first(str(repository.root), repository.folder)
    name = f"_workflow_{path.stem}"
    module = sys.modules.get(name)
    is_loaded = module is not None and os.path.realpath(str(module.__file__)) == os.path.realpath(path)
    if module is not None and is_loaded and (target is None or hasattr(module, "build")):
        return module
    kfp_package.load()
    with explain_errors(path, repository), use_target(target or Local(), repository.root):
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec and spec.loader
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    if not (callable(getattr(module, "build", None)) or _list_pipelines(module)):
        raise RequestError(
            f"{_shorten(path, repository)} holds no workflow: add a @dsl.pipeline function at module level, or a "
            "function build(target)."
        )
    return module


def compile_workflow(name: str, target: Target, repository: Repository) -> PipelineSpec:
    """Returns the spec of the workflow `name` for `target`.

    Raises:
        RequestError: there is no such workflow, or its code fails.
    """
    path = find_workflow(name, repository)
    module = load(path, repository, target)
    with explain_errors(path, repository), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if hasattr(module, "build"):
            pipeline = module.build(target)
            if not hasattr(pipeline, "pipeline_spec"):
                raise RequestError(
                    f"{_shorten(path, repository)}: build(target) must return its function with @dsl.pipeline."
                )
        else:
            pipeline = _choose_pipeline(module, path, repository)
        return complete_spec(pipeline, target, partial(_expand, module), repository.root)


def _choose_pipeline(module: ModuleType, path: Path, repository: Repository) -> "BaseComponent":
    """Returns the pipeline of a workflow: its only one, or the one named like its file."""
    pipelines = _list_pipelines(module)
    if len(pipelines) > 1 and path.stem not in pipelines:
        raise RequestError(
            f"{_shorten(path, repository)} has the pipelines {join_words(sorted(pipelines), 'and')}. Rename the one "
            f"to run to {path.stem}, like the file."
        )
    return pipelines[path.stem] if path.stem in pipelines else next(iter(pipelines.values()))


def _list_pipelines(module: ModuleType) -> JsonObject:
    """Returns the pipelines at module level, by the names of their functions."""
    from kfp.dsl.graph_component import GraphComponent

    return {name: value for name, value in vars(module).items() if isinstance(value, GraphComponent)}


def check_arguments(
    name: str,
    spec: PipelineSpec,
    arguments: JsonView,
    repository: Repository,
    *,
    remote: bool = False,
) -> None:
    """Checks a run's arguments against the spec, then with the workflow's own function `check`, if it has one.

    Raises:
        RequestError: an argument is invalid; the message has the value, the rule and the choices.
    """
    path = find_workflow(name, repository)
    members = list_members(name, repository) if scripts(spec) else {}
    settings = {*members, *(member for names in members.values() for member in names)}
    container_settings.refuse_arguments(spec, arguments, remote=remote, settings=settings)
    spec_ladder.refuse_sizes(spec, arguments)
    refuse_same_inputs(spec, arguments)
    own_check = getattr(load(path, repository), "check", None)
    if own_check is None:
        return
    facts = _select_keywords(own_check, **_describe_run(spec, arguments, remote))
    with explain_errors(path, repository):
        try:
            own_check(_select_declared(spec, arguments), **facts)
        except ValueError as error:
            raise RequestError(str(error)) from None


def check_sources(name: str, spec: PipelineSpec, arguments: JsonView, repository: Repository) -> None:
    """Checks that the sources in the arguments exist, with the workflow's function `look(arguments)`, if it has one.

    Raises:
        RequestError: a source does not exist.
    """
    path = find_workflow(name, repository)
    look = getattr(load(path, repository), "look", None)
    if look is not None:
        with explain_errors(path, repository):
            try:
                look(_select_declared(spec, arguments))
            except ValueError as error:
                raise RequestError(str(error)) from None


def _select_declared(spec: PipelineSpec, arguments: JsonView) -> JsonObject:
    """Returns the values of the parameters that the workflow declares, without the added parameters for sizes."""
    sized = spec_ladder.size_choices(spec)
    return {name: value for name, value in {**spec.defaults, **arguments}.items() if name not in sized}


def _describe_run(spec: PipelineSpec, arguments: JsonView, remote: bool) -> JsonObject:
    """Returns the facts of a run that a workflow's function `check` can take as keywords."""
    return {
        "remote": remote,
        "commands": tuple(scripts(spec)),
        "bigquery": container_facts.bigquery_steps(spec),
        "worlds": spec_ladder.worlds_of_sizes(spec, arguments),
    }


def _select_keywords(function: Callable[..., object], **facts: Any) -> JsonObject:
    """Returns the facts that the function has parameters for."""
    return {name: facts[name] for name in inspect.signature(function).parameters if name in facts}


def expand_arguments(name: str, values: JsonView, repository: Repository, folder: Path | None = None) -> JsonObject:
    """Returns the arguments with names of local files replaced by their contents.

    The workflow's function `expanded(arguments, folder)` replaces them; without one, arguments stay unchanged.

    Args:
        name: The workflow.
        values: The arguments.
        repository: The repository of the workflow.
        folder: The folder for relative paths; None: the repository's root.

    Raises:
        RequestError: a file does not exist, or is invalid.
    """
    path = find_workflow(name, repository)
    module = load(path, repository)
    with explain_errors(path, repository):
        return _expand(module, values, folder or repository.root)


def _expand(module: ModuleType, values: JsonView, folder: Path) -> JsonObject:
    expand = getattr(module, "expanded", None)
    try:
        return dict(expand(dict(values), folder)) if expand else dict(values)
    except ValueError as error:
        raise RequestError(str(error)) from None


def list_members(name: str, repository: Repository) -> Mapping[str, Collection[str]]:
    """Returns the member names of a workflow's JSON parameters, from its function `members()`; {} without one."""
    path = find_workflow(name, repository)
    members = getattr(load(path, repository), "members", dict)
    with explain_errors(path, repository):
        return dict(members())


@contextmanager
def explain_errors(path: Path, repository: Repository) -> Iterator[None]:
    """Turns an error in the code of a workflow into a RequestError with its file and line."""
    try:
        yield
    except RequestError:
        raise
    except (Exception, SystemExit) as error:
        place = _locate(error, repository) or _shorten(path, repository)
        raise RequestError(f"{place}: {type(error).__name__}: {error}") from error


def _locate(error: BaseException, repository: Repository) -> str:
    """Returns file and line of the repository's own code that raised the error; "" if other code did."""
    lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append((error.filename, error.lineno))
    own = [(Path(name), line) for name, line in lines if _is_project_file(Path(name), repository)]
    return f"{_shorten(own[-1][0], repository)}:{own[-1][1]}" if own else ""


def _is_project_file(path: Path, repository: Repository) -> bool:
    """Whether a file is the project's own code, not this library's and not in a virtual environment."""
    return (
        path.is_relative_to(repository.root)
        and not path.is_relative_to(_LIBRARY)
        and not {"site-packages", "dist-packages"} & set(path.parts)
    )


def _shorten(path: Path, repository: Repository) -> str:
    return str(path.relative_to(repository.root))
