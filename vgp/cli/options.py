"""Shared parts of the verbs: options, loading of settings, printing of results, lazy imports."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from vgp.base.errors import RequestError
from vgp.base.text.nearest import nearest

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from vgp.settings import Settings
    from vgp.settings.repository import Repository

Value = TypeVar("Value")


class _AtFirstUse(MetaPathFinder):
    """A finder that executes modules of the library only when one of their names is used."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname.startswith("vgp.") else None
        if spec and spec.loader and not spec.submodule_search_locations:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def at_first_use() -> Iterator[None]:
    """Delays the execution of modules imported inside the `with` until a verb first uses them.

    `vgp submit --help` needs the verb's options only, and skips a second of imports. Import modules here, not names
    from modules: importing a name executes the module.
    https://docs.python.org/3/library/importlib.html#implementing-lazy-imports; Python 3.15 has the statement `lazy
    import` for it (PEP 810).
    """
    finder = _AtFirstUse()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class WithParameters(TyperCommand):
    """A command with `--set`, whose error for an unknown option explains how to set a parameter of the pipeline."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            option = getattr(error, "option_name", "")  # Typer has no public name for NoSuchOption
            if not option.startswith("--"):
                raise
            raise RequestError(f"{ctx.command_path} has no option {option}. {self._hint(option, words)}") from None

    def _hint(self, option: str, words: list[str]) -> str:
        options = {name for parameter in self.params for name in (*parameter.opts, *parameter.secondary_opts)}
        if near := nearest(option, options, cutoff=0.75):
            return f"Did you mean {near}?"
        word = next((word for word in words if word.partition("=")[0] == option), option)
        following = [*words[words.index(word) + 1 :], ""][0] if word in words else ""
        value = word.partition("=")[2] or (following if following and not following.startswith("-") else "VALUE")
        name = option.removeprefix("--").replace("-", "_")
        return f"Set a parameter of the pipeline with --set {shlex.quote(f'{name}={value}')}; list them: vgp list NAME."


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout; messages go to stderr.")]
Environment = Annotated[
    str | None,
    typer.Option("--env", help="Environment of pipelines.toml: dev, prod ...; default: see vgp config."),
]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", help="Settings file; default: pipelines.toml.", show_default=False)
]
Workflow = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline: see vgp list.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A parameter of the pipeline, or NAME.MEMBER of a JSON one; repeatable."
    ),
]
Preflight = Annotated[
    bool, typer.Option("--preflight/--no-preflight", help="Check credentials, bucket and account first.")
]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id, first letters of an id, resource name, console link, latest or latest:PIPELINE.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="Follow the run; the exit code is its result.")]
Timeout = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", min=0, help="Stop waiting after this time; the run continues."),
]


def load_settings(
    file: Path | None, environment: str | None, overrides: Mapping[str, str | None] | None = None
) -> "Settings":
    """Returns the effective settings; imports pydantic and the catalog only when a verb needs them."""
    from vgp.settings import load

    return load(file, environment=environment, overrides=overrides)


def repository_of(file: Path | None = None) -> "Repository":
    """Returns the repository of the settings file, or of the nearest one."""
    from vgp.settings import repository_of

    return repository_of(file)


def confirm(question: str, yes: bool, look: str = "") -> None:
    """Asks for confirmation unless `yes`; the answer no ends the command. `look` is the command that previews the
    action.

    Raises:
        RequestError: there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        first = f". Look at `{look}`, then" if look else ":"
        raise RequestError(f"there is no terminal to ask on{first} repeat with --yes.")
    typer.confirm(question, abort=True, err=True)


def console(stderr: bool = False) -> "Console":
    """Returns the console; for a log file or pipe with 200 columns, because they have no width."""
    from rich.console import Console

    terminal = Console(stderr=stderr)
    return terminal if terminal.is_terminal else Console(stderr=stderr, width=200)


def show(value: Value, as_json: bool, drawn: "Callable[[Value], RenderableType]") -> None:
    """Prints `value` as JSON, or rendered by `drawn`."""
    if as_json:
        print_json(value)
    else:
        console().print(drawn(value))


def print_lines(*lines: str, stderr: bool = False) -> None:
    """Prints lines without markup and without folding, so that links and commands can be copied."""
    for line in lines:
        console(stderr).print(line, highlight=False, markup=False, soft_wrap=True)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2))
