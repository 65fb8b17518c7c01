"""What the groups of verbs share: options, how settings are loaded, and how results are printed."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from vgp.settings import Settings

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
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id, the beginning of one, resource name, console link, latest or latest:PIPELINE.",
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="Follow the run; the exit code tells how it ended.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", min=0, help="Wait no longer; the run goes on.")
]


def load_settings(file: Path | None, environment: str | None, overrides: Mapping[str, Any] | None = None) -> "Settings":
    """The effective settings; pydantic and the catalog are imported here, once a verb needs them."""
    from vgp.settings import load

    return load(file, environment=environment, overrides=overrides)


def console(stderr: bool = False) -> "Console":
    """The terminal; a log file or a pipe has no width to fold lines to."""
    from rich.console import Console

    terminal = Console(stderr=stderr)
    return terminal if terminal.is_terminal else Console(stderr=stderr, width=200)


def show(value: Any, as_json: bool, drawn: "Callable[[Any], RenderableType]") -> None:
    """Prints `value` as JSON, or what `drawn` makes of it."""
    if as_json:
        print_json(value)
    else:
        console().print(drawn(value))


def say(*lines: str, stderr: bool = False) -> None:
    """Prints lines as they are: a name is no markup, and a link or a command is not folded."""
    for line in lines:
        console(stderr).print(line, highlight=False, markup=False, soft_wrap=True)


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
