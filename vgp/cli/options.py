"""What the groups of verbs share: options, and how results are printed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout; messages go to stderr.")]
Environment = Annotated[
    str | None,
    typer.Option("--env", help="Environment of pipelines.toml: dev, prod ...; default: see pipelines config."),
]
SettingsFile = Annotated[
    Path | None, typer.Option("--settings", help="Settings file; default: pipelines.toml.", show_default=False)
]

Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id, the beginning of one, resource name, console link, latest or latest:PIPELINE.",
    ),
]


def console(stderr: bool = False) -> Any:
    """The terminal; a log file or a pipe has no width to fold lines to."""
    from rich.console import Console

    made = Console(stderr=stderr)
    return made if made.is_terminal else Console(stderr=stderr, width=200)


def show(value: Any, as_json: bool, drawn: Callable[[Any], Any]) -> None:
    """Prints `value` as JSON, or what `drawn` makes of it."""
    if as_json:
        print_json(value)
    else:
        console().print(drawn(value))


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
