"""The workflows of a repository: found by their files, imported one at a time, compiled by kfp."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kfp.dsl.base_component import BaseComponent

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
from typing import Any

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
from vgp.settings.repository import Repository, find, known
from vgp.workflow import kfp_package
from vgp.workflow.compiling.compile_target import Local, Target
from vgp.workflow.compiling.placing import completed, placing

__all__ = ["check", "compiled", "expanded", "find", "known", "load", "look", "members"]

_OURS = Path(vgp.__file__).parent


def load(path: Path, repository: Repository, target: Target | None = None) -> ModuleType:
    """Returns the module of the workflow at `path`, with what it imports from its repository.

    It is imported once; a workflow whose steps are placed during the import, once for each `target`.

    Raises:
        RequestError: it does not import, or holds no workflow: which file and line, and why.
    """
    search_repository_first(str(repository.root), repository.folder)
    name = f"_workflow_{path.stem}"
    module = sys.modules.get(name)
    is_known = module is not None and os.path.realpath(str(module.__file__)) == os.path.realpath(path)
    if module is not None and is_known and (target is None or hasattr(module, "build")):
        return module
    kfp_package.load()
    with explained(path, repository), placing(target or Local(), repository.root):
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec and spec.loader
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    if not (callable(getattr(module, "build", None)) or _pipelines(module)):
        raise RequestError(
            f"{_shown(path, repository)}: a workflow is a file with a @dsl.pipeline function at its top, or with a "
            "function build(target)."
        )
    return module


def compiled(name: str, target: Target, repository: Repository) -> PipelineSpec:
    """The spec of the workflow `name` for `target`. Runs of the console have no other say in caching than the spec's.

    Raises:
        RequestError: there is no such workflow, or its code fails.
    """
    path = known(name, repository)
    module = load(path, repository, target)
    with explained(path, repository), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        if hasattr(module, "build"):
            pipeline = module.build(target)
            if not hasattr(pipeline, "pipeline_spec"):
                raise RequestError(
                    f"{_shown(path, repository)}: build(target) must return its function with @dsl.pipeline."
                )
        else:
            pipeline = _pipeline(module, path, repository)
        return completed(pipeline, target, partial(_expanded, module), repository.root)


def _pipeline(module: ModuleType, path: Path, repository: Repository) -> "BaseComponent":
    """The pipeline of a workflow: the one that it has, or that has the name of its file."""
    pipelines = _pipelines(module)
    if len(pipelines) > 1 and path.stem not in pipelines:
        raise RequestError(
            f"{_shown(path, repository)} has the pipelines {join_words(sorted(pipelines), 'and')}: name the "
            "one that is "
            f"run after the file, {path.stem}."
        )
    return pipelines[path.stem] if path.stem in pipelines else next(iter(pipelines.values()))


def _pipelines(module: ModuleType) -> JsonObject:
    """The pipelines at the top of a workflow, by their functions' names."""
    from kfp.dsl.graph_component import GraphComponent

    return {name: value for name, value in vars(module).items() if isinstance(value, GraphComponent)}


def check(
    name: str,
    spec: PipelineSpec,
    arguments: JsonView,
    repository: Repository,
    *,
    remote: bool = False,
) -> None:
    """What commands in the spec do not take, and what the workflow itself can tell to be wrong, if it has a `check`.

    Raises:
        RequestError: says what was given, the rule, and the choices.
    """
    path = known(name, repository)
    inner = members(name, repository) if scripts(spec) else {}
    settings = {*inner, *(member for each in inner.values() for member in each)}
    container_settings.refuse_arguments(spec, arguments, remote=remote, settings=settings)
    spec_ladder.refuse_sizes(spec, arguments)
    refuse_same_inputs(spec, arguments)
    judge = getattr(load(path, repository), "check", None)
    if judge is None:
        return
    with explained(path, repository):
        try:
            judge(_own(spec, arguments), **_told(judge, **_known(spec, arguments, remote)))
        except ValueError as error:
            raise RequestError(str(error)) from None


def look(name: str, spec: PipelineSpec, arguments: JsonView, repository: Repository) -> None:
    """What the workflow can tell by looking at what its arguments name, if it has a function `look(arguments)`.

    Raises:
        RequestError: something is not there.
    """
    path = known(name, repository)
    judge = getattr(load(path, repository), "look", None)
    if judge is not None:
        with explained(path, repository):
            try:
                judge(_own(spec, arguments))
            except ValueError as error:
                raise RequestError(str(error)) from None


def _own(spec: PipelineSpec, arguments: JsonView) -> JsonObject:
    """The parameters that the workflow itself declares: those of sizes are of the settings."""
    sized = spec_ladder.size_choices(spec)
    return {name: value for name, value in {**spec.defaults, **arguments}.items() if name not in sized}


def _known(spec: PipelineSpec, arguments: JsonView, remote: bool) -> JsonObject:
    return {
        "remote": remote,
        "commands": tuple(scripts(spec)),
        "bigquery": container_facts.bigquery_steps(spec),
        "worlds": spec_ladder.worlds_of_sizes(spec, arguments),
    }


def _told(judge: Callable[..., object], **known: Any) -> JsonObject:
    """Of what is known the part that a workflow's `check` takes."""
    return {name: known[name] for name in inspect.signature(judge).parameters if name in known}


def expanded(name: str, values: JsonView, repository: Repository, folder: Path | None = None) -> JsonObject:
    """The arguments as they go on, with what files of this machine say in place of their names, if the workflow has a
    function `expanded(arguments, folder)` that knows any.

    Args:
        folder: What relative paths are relative to; None: the repository.

    Raises:
        RequestError: such a file is not there, or wrong.
    """
    path = known(name, repository)
    module = load(path, repository)
    with explained(path, repository):
        return _expanded(module, values, folder or repository.root)


def _expanded(module: ModuleType, values: JsonView, folder: Path) -> JsonObject:
    replace = getattr(module, "expanded", None)
    try:
        return dict(replace(dict(values), folder)) if replace else dict(values)
    except ValueError as error:
        raise RequestError(str(error)) from None


def members(name: str, repository: Repository) -> Mapping[str, Collection[str]]:
    """The names that the JSON parameters of a workflow take, as its `members()` says, if it has one."""
    path = known(name, repository)
    told = getattr(load(path, repository), "members", dict)
    with explained(path, repository):
        return dict(told())


@contextmanager
def explained(path: Path, repository: Repository) -> Iterator[None]:
    """An error in the code of a workflow becomes one message with its file and line."""
    try:
        yield
    except RequestError:
        raise
    except (Exception, SystemExit) as error:
        place = _place(error, repository) or _shown(path, repository)
        raise RequestError(f"{place}: {type(error).__name__}: {error}") from error


def _place(error: BaseException, repository: Repository) -> str:
    """File and line of the repository's own code that the error came from; empty if it came from elsewhere."""
    lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append((error.filename, error.lineno))
    own = [(Path(name), line) for name, line in lines if _is_own(Path(name), repository)]
    return f"{_shown(own[-1][0], repository)}:{own[-1][1]}" if own else ""


def _is_own(path: Path, repository: Repository) -> bool:
    """Whether a file is the repository's own code, not ours nor of an environment that lies in it."""
    return (
        path.is_relative_to(repository.root)
        and not path.is_relative_to(_OURS)
        and not {"site-packages", "dist-packages"} & set(path.parts)
    )


def _shown(path: Path, repository: Repository) -> str:
    return str(path.relative_to(repository.root))
