"""The verbs of `vgp`, by heading, with their files and summaries.

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

    #: Module in vgp/cli whose `app` has the verb.
    file: str
    #: At most 62 characters: a terminal of 80 columns shows it whole.
    summary: str


VERBS: dict[str, dict[str, Verb]] = {
    "Settings": {
        "new": Verb("project", "Write a repository that compiles, trains and passes its test."),
        "update": Verb("project", "Update a project to this version of the library."),
        "init": Verb("config", "Write a first pipelines.toml, with environments dev and prod."),
        "config": Verb("config", "Show the effective settings and the source of each."),
    },
    "On this machine": {
        "list": Verb("workflows", "List the pipelines, or the parameters of one."),
        "compile": Verb("workflows", "Compile pipelines to JSON, and check every machine in them."),
        "run": Verb("workflows", "Run a pipeline on this machine: every step, on real data."),
        "check": Verb("check", "Check any spec or job against the GPU catalog."),
        "machines": Verb("machines", "List machines with their GPUs and prices, cheapest first."),
        "convert": Verb("convert", "Convert a job, a gcloud line or a legacy job to another form."),
    },
    "Models": {
        "models": Verb("models", "Registered models: versions, champion, promotion, rollback."),
    },
    "On Vertex AI": {
        "image": Verb("image", "Build the image that all steps run in."),
        "preflight": Verb("submit", "Find problems that would stop a run, before it costs money."),
        "submit": Verb("submit", "Start a run, once; follow it with --wait."),
        "rerun": Verb("submit", "Repeat a run, from the start or from its failed steps."),
        "wait": Verb("runs", "Follow a run until it ends: steps, machines, cost so far."),
        "cancel": Verb("runs", "Stop a run."),
        "runs": Verb("runs", "List runs, newest first."),
        "show": Verb("runs", "Show a run: steps, cost, parameters, metrics, errors."),
        "logs": Verb("runs", "Print what the steps of a run wrote."),
        "shell": Verb("runs", "Open a shell on the machines of a running step."),
        "compare": Verb("runs", "Put runs side by side: parameters, metrics, time, cost."),
        "upload": Verb("templates", "Publish a pipeline as a template, verified by its digest."),
        "templates": Verb("templates", "List templates and their versions; move tags, pin, download."),
        "clean": Verb("runs", "Remove files of old runs that nothing needs from the bucket."),
        "schedule": Verb("schedules", "Recurring runs: declared in pipelines.toml, planned, applied."),
        "doctor": Verb("schedules", "Report failed and missed runs of the schedules, and why."),
    },
}


class Commands(Mapping[str, Any]):
    """The commands of the verbs, by name."""

    def __init__(self) -> None:
        self._verbs = {name: verb for verbs in VERBS.values() for name, verb in verbs.items()}

    def __getitem__(self, name: str) -> Any:
        verb = self._verbs[name]
        command = load_commands(verb.file)[name]
        command.short_help = verb.summary
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._verbs)

    def __len__(self) -> int:
        return len(self._verbs)


class Verbs(TyperGroup):
    """The command `vgp`, which lists VERBS and runs the commands of their files."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": Commands()})

    def format_commands(self, context: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for heading, verbs in VERBS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), verb.summary) for name, verb in verbs.items()])


@cache
def load_commands(file: str) -> Mapping[str, Any]:
    """Returns the commands of a module of vgp/cli."""
    alone = typer.Typer(rich_markup_mode=None)
    alone.add_typer(import_module(f"vgp.cli.{file}").app)
    commands: Mapping[str, Any] = typer.main.get_group(alone).commands
    for command in commands.values():
        for part in getattr(command, "commands", {}).values():
            part.short_help = _first_sentence(part.help or "")
    return commands


def _first_sentence(text: str) -> str:
    """Returns the first sentence of `text` in full; Click would cut it at the end of the line."""
    return " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."
