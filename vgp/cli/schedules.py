"""The verbs of recurring runs: schedule plan, apply, list, pause, resume, delete."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from vgp.cli.options import Environment, Json, SettingsFile, console, print_json
from vgp.errors import RequestError

#: Of `plan --exit-code`, when `apply` would do something.
EXIT_PENDING = 3

app = typer.Typer()
schedule = typer.Typer(
    help="Recurring runs: declared in pipelines.toml, brought to Vertex AI.\n\n"
    "Write [schedules.NAME] into pipelines.toml, look at `plan`, then `apply`. Schedules that others made are never "
    "touched. Times, clock changes and costs: docs/schedules.md.",
    no_args_is_help=True,
)
app.add_typer(schedule, name="schedule", rich_help_panel="On Vertex AI")

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Declared schedules; default: all.")]
One = Annotated[str, typer.Argument(metavar="NAME", help="As declared, or the id of a schedule that we made.")]
Prune = Annotated[bool, typer.Option("--prune", help="Delete schedules of ours that are declared no longer.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal.")]


@schedule.command(epilog="Example: pipelines schedule plan --env prod --exit-code")
def plan(
    names: Names = None,
    prune: Prune = False,
    full: Annotated[
        bool, typer.Option("--full", help="Also the line by line difference of changed pipelines.")
    ] = False,
    terraform: Annotated[
        bool, typer.Option("--terraform", help="Print google_vertex_ai_schedule resources instead.")
    ] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 3 if apply would do something, with 0 if not.")
    ] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Show what apply would do, when the schedules run next, and what they can cost. Changes nothing.

    Compared is also the pipeline that a live schedule runs with the one compiled now.
    """
    from datetime import UTC, datetime

    from vgp.vertex.schedules import verb as schedules
    from vgp.vertex.schedules import view as schedule_view

    loaded = _load(settings, environment)
    if terraform:
        from vgp.vertex.schedules.terraform import text

        print(text(loaded, schedules.declared(loaded, names or ())), end="")
        return
    actions = schedules.plan(loaded, names or (), prune=prune)
    now = datetime.now(UTC)
    if as_json:
        print_json(schedule_view.plan_json(actions, now))
    else:
        console().print(schedule_view.plan(actions, now, full=full), soft_wrap=full)
    if exit_code and any(each.pending for each in actions):
        raise typer.Exit(EXIT_PENDING)


@schedule.command(epilog="Example: pipelines schedule apply nightly --env prod --yes")
def apply(
    names: Names = None,
    prune: Prune = False,
    yes: Yes = False,
    preflight: Annotated[
        bool, typer.Option("--preflight/--no-preflight", help="Look at credentials, bucket and account before.")
    ] = True,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Create and update the schedules as declared. Applying twice, or by two people at once, gives the same as once.

    A live schedule is changed in place, its pipeline and parameters included. A command that was killed or lost its
    connection can simply be repeated.
    """
    from datetime import UTC, datetime

    from vgp.vertex.schedules import verb as schedules
    from vgp.vertex.schedules import view as schedule_view

    loaded = _load(settings, environment)
    out = console(as_json)
    actions = schedules.plan(loaded, names or (), prune=prune)
    now = datetime.now(UTC)
    out.print(schedule_view.plan(actions, now))
    pending = [each for each in actions if each.pending]
    if pending:
        _confirm(f"{schedule_view.summary(actions)}. Go on?", yes)
    done = schedules.apply(loaded, actions, preflight=preflight, tell=lambda text: out.print(text, markup=False))
    if as_json:
        applied = [{"name": each.name, "schedule": each.resource, "did": each.did} for each in done]
        print_json({"applied": applied, **schedule_view.plan_json(actions, now)})


@schedule.command("list", epilog="Example: pipelines schedule list --env prod --json")
def list_(environment: Environment = None, settings: SettingsFile = None, as_json: Json = False) -> None:
    """List every schedule of the project and region: ours with their last run, and the others."""
    from vgp.vertex.schedules import listing
    from vgp.vertex.schedules import view as schedule_view

    rows = listing.rows(_load(settings, environment))
    if as_json:
        print_json([listing.as_json(row) for row in rows])
    else:
        console().print(schedule_view.listing(rows) if rows else "There are no schedules: pipelines schedule apply.")


@schedule.command(epilog="Example: pipelines schedule pause nightly")
def pause(
    name: One, environment: Environment = None, settings: SettingsFile = None, as_json: Json = False
) -> None:  # fmt: skip
    """Start no more runs, until resume or apply; those that have started go on.

    The next apply resumes it, unless pipelines.toml says paused = true.
    """
    loaded = _load(settings, environment)
    from vgp.vertex.schedules import control

    _report_state(loaded, control.set_state(loaded, name, "paused"), as_json)


@schedule.command(epilog="Example: pipelines schedule resume nightly --catch-up")
def resume(
    name: One,
    catch_up: Annotated[
        bool | None,
        typer.Option(
            "--catch-up/--no-catch-up", help="Make up for the runs that fell into the pause; default: as declared."
        ),
    ] = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Start runs again, from the next time on; with --catch-up also those that the pause left out."""
    loaded = _load(settings, environment)
    from vgp.vertex.schedules import control

    _report_state(loaded, control.set_state(loaded, name, "active", catch_up=catch_up), as_json)


@schedule.command(epilog="Example: pipelines schedule delete nightly --yes")
def delete(
    name: One, yes: Yes = False, environment: Environment = None, settings: SettingsFile = None, as_json: Json = False
) -> None:
    """Delete a schedule of ours; one that is gone already is no error. Its runs stay, or go on."""
    loaded = _load(settings, environment)
    from vgp.vertex.schedules import control

    out = console(as_json)
    found = control.find(loaded, name)
    if found:
        _confirm(f"Delete the schedule {name}?", yes)
    deleted = control.delete(loaded, name) if found else []
    if as_json:
        print_json({"name": name, "deleted": deleted})
        return
    said = f"deleted {name}" if deleted else f"there is no schedule {name!r}. {control.hint(loaded, name)}"
    out.print(said, markup=False)
    if deleted and name in loaded.schedules:
        out.print("It is still declared: the next apply makes it again.", markup=False)


def _load(settings: Any, environment: str | None) -> Any:
    from vgp.settings import load

    return load(settings, environment=environment)


def _confirm(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise RequestError("there is no terminal to ask on. Look at `pipelines schedule plan`, then repeat with --yes.")
    typer.confirm(question, abort=True, err=True)


def _report_state(settings: Any, found: Sequence[dict[str, Any]], as_json: bool) -> None:
    from vgp.vertex.schedules import control

    if as_json:
        print_json(found)
        return
    out = console()
    for each in found:
        was = "" if each["changed"] else " already"
        out.print(f"{each['name']} is{was} {each['state']}", markup=False)
    target = control.declared_state(settings, found)
    if target:
        value = "false" if target == "paused" else "true"
        out.print(
            f"The file says otherwise: the next apply makes it {target}. To keep it: paused = {value}.", markup=False
        )
