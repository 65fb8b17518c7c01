"""The verb that removes what runs left behind in the bucket."""

import sys
from typing import Annotated

import typer

from vgp.base.errors import RequestError
from vgp.cli.options import Environment, Json, SettingsFile, console, load_settings, print_json, say

app = typer.Typer()


@app.command(epilog="Example: vgp clean --older-than 90d --dry-run")
def clean(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="What nothing was written to for so long: 60d, 10w.")
    ] = "60d",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go; delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal.")] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Remove what runs left in runs/ of the bucket: outputs, checkpoints, pins. Shows it first, and asks.

    Stays, however old: what a champion, an open run, a schedule or pins of a younger run name; and whatever the cache
    may still take, which is younger than four weeks. May be killed and repeated.
    """
    from vgp.vertex import cleaning, cleaning_view

    age, loaded = cleaning.age(older_than), load_settings(settings, environment)
    planned = cleaning.plan(loaded, age)
    console(as_json).print(cleaning_view.drawn(planned))
    removed = None
    if planned.going and not dry_run:
        _confirm(f"Delete them from {planned.root.uri}?", yes)
        with console(stderr=True).status("Deleting") as status:
            removed = cleaning.remove(planned, lambda removed: status.update(f"{removed.objects:,} objects deleted"))
        say(f"Deleted {removed.objects:,} objects, {cleaning_view.size(removed.bytes)}.", stderr=as_json)
        if removed.changed:
            say(f"{removed.changed:,} were written anew meanwhile, and stay.", stderr=as_json)
    if as_json:
        print_json(cleaning_view.as_json(planned, removed))


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise RequestError("there is no terminal to ask on. Look at `vgp clean --dry-run`, then repeat with --yes.")
    typer.confirm(question, abort=True, err=True)
