"""The verbs, by heading: each with the file that holds it, and what it does in a few words.

A verb's file is imported when the verb is used, so that `vgp --help` costs little more than Typer itself.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup


class Verb(NamedTuple):
    """A line of `vgp --help`."""

    #: Below vgp/cli; its `app` has the verb.
    file: str
    #: At most 62 characters: a terminal of 80 columns shows it whole.
    summary: str


VERBS: dict[str, dict[str, Verb]] = {
    "Settings": {
        "new": Verb("project", "Write a repository that compiles, trains and passes its test."),
        "update": Verb("project", "Take this version of the library into a project."),
        "init": Verb("config", "Write a first pipelines.toml, with environments dev and prod."),
        "config": Verb("config", "Show the settings in effect, and where each came from."),
    },
    "On this machine": {
        "list": Verb("workflows", "List the pipelines, or the parameters of one."),
        "compile": Verb("workflows", "Compile pipelines to JSON, and check every machine in them."),
        "run": Verb("workflows", "Run a pipeline on this machine: every step, on real data."),
        "check": Verb("check", "Check any spec or job against the GPU catalog."),
        "machines": Verb("machines", "List machines with their GPUs and prices, cheapest first."),
        "convert": Verb("convert", "Turn a job, a gcloud line or a legacy job into another form."),
    },
    "Models": {
        "models": Verb("models", "Registered models: versions, champion, promotion, rollback."),
    },
    "On Vertex AI": {
        "image": Verb("image", "Build the one image that every step runs in."),
        "preflight": Verb("submit", "Look for what would stop a run, before it costs money."),
        "submit": Verb("submit", "Start a run, once; follow it with --wait."),
        "rerun": Verb("submit", "Run again what a run ran, whole or from what failed."),
        "wait": Verb("runs", "Follow a run until it ends: steps, machines, cost so far."),
        "cancel": Verb("runs", "Stop a run."),
        "runs": Verb("runs", "List runs, newest first."),
        "show": Verb("runs", "Show a run: steps, cost, parameters, metrics, what failed."),
        "logs": Verb("runs", "Print what the steps of a run wrote."),
        "shell": Verb("runs", "Open a shell on the machines where a step works now."),
        "compare": Verb("runs", "Put runs side by side: parameters, metrics, time, cost."),
        "upload": Verb("templates", "Publish a pipeline as a template, verified by its digest."),
        "templates": Verb("templates", "List templates and their versions; move tags, pin, download."),
        "clean": Verb("runs", "Remove what runs left in the bucket and nothing needs."),
        "schedule": Verb("schedules", "Recurring runs: declared in pipelines.toml, planned, applied."),
        "doctor": Verb("schedules", "Tell how the schedules are: failed and missed nights, and why."),
    },
}


class Commands(Mapping[str, Any]):
    """The commands of the verbs, by name."""

    def __init__(self) -> None:
        self._verbs = {name: verb for verbs in VERBS.values() for name, verb in verbs.items()}

    def __getitem__(self, name: str) -> Any:
        verb = self._verbs[name]
        command = of_file(verb.file)[name]
        command.short_help = verb.summary
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)


class Verbs(TyperGroup):
    """The command `vgp`: what it lists stands in VERBS, what it runs in the verbs' files."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": Commands()})

    def format_commands(self, context: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for heading, verbs in VERBS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), verb.summary) for name, verb in verbs.items()])


@cache
def of_file(file: str) -> Mapping[str, Any]:
    """The commands that a file of vgp/cli holds."""
    alone = typer.Typer(rich_markup_mode=None)
    alone.add_typer(import_module(f"vgp.cli.{file}").app)
    commands: Mapping[str, Any] = typer.main.get_group(alone).commands
    for command in commands.values():
        for part in getattr(command, "commands", {}).values():
            part.short_help = _first_sentence(part.help or "")
    return commands


def _first_sentence(text: str) -> str:
    """Whole, where Click would cut it at the end of the line."""
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."
