"""The verbs of recurring runs: schedule plan, apply, list, pause, resume, backfill, delete; doctor."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from vgp.base.text.times import parse_day
from vgp.cli.options import (
    Environment,
    Json,
    Preflight,
    SettingsFile,
    confirm,
    console,
    import_lazily,
    load_settings,
    print_json,
    print_lines,
)

with import_lazily():
    from vgp.vertex.images import project_code
    from vgp.vertex.schedules import (
        backfill as nights,
    )
    from vgp.vertex.schedules import (
        backfill_page,
        declared_schedule,
        reconcile,
        schedule_control,
        schedule_doctor,
        schedule_list,
        schedule_terraform,
        schedule_view,
    )

#: Exit code of `backfill` after Ctrl-C.
DETACHED = 130
#: Exit code of `plan --exit-code` if `apply` would change something.
EXIT_PENDING = 3

app = typer.Typer()
schedule = typer.Typer(
    help="Recurring runs: declared in pipelines.toml, applied to Vertex AI.\n\n"
    "Write [schedules.NAME] into pipelines.toml, check with `plan`, then `apply`. Schedules of other tools are never "
    "changed. Times, clock changes and costs: docs/tutorials/nightly.md.",
    no_args_is_help=True,
)
app.add_typer(schedule, name="schedule", epilog="Example: vgp schedule plan --env prod")

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Declared schedules; default: all.")]
One = Annotated[
    str, typer.Argument(metavar="NAME", help="Name in pipelines.toml, or id of a schedule that vgp created.")
]
Prune = Annotated[bool, typer.Option("--prune", help="Delete schedules of vgp that pipelines.toml does not declare.")]
Code = Annotated[
    bool,
    typer.Option(
        "--code",
        help="Runs use your code as it is on this machine (code in pipelines.toml) instead of the image's; needs "
        "allow_code = true.",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")]


@schedule.command(epilog="Example: vgp schedule plan --env prod --exit-code")
def plan(
    names: Names = None,
    prune: Prune = False,
    full: Annotated[bool, typer.Option("--full", help="Also show the diff of changed pipelines.")] = False,
    terraform: Annotated[
        bool, typer.Option("--terraform", help="Print google_vertex_ai_schedule resources instead, as JSON.")
    ] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 3 if apply would change something, else with 0.")
    ] = False,
    code: Code = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Show the changes that apply would make, the next runs, their maximum costs, and the cacheable steps.

    Changes nothing. The comparison includes the pipeline of each live schedule and its newly compiled version.
    """
    loaded = load_settings(settings, environment)
    loaded = project_code.pack(loaded, schedule=True).settings if code else loaded
    if terraform:
        print(schedule_terraform.render_text(loaded, declared_schedule.read_declarations(loaded, names or ())), end="")
        return
    actions, now = reconcile.plan_all(loaded, names or (), prune=prune), datetime.now(UTC)
    costs = reconcile.last_costs(loaded, actions)
    if as_json:
        print_json(schedule_view.plan_json(actions, now, costs))
    else:
        console().print(schedule_view.render_plan(actions, now, costs, full=full), soft_wrap=full)
    if exit_code and any(action.pending for action in actions):
        raise typer.Exit(EXIT_PENDING)


@schedule.command(epilog="Example: vgp schedule apply nightly --env prod --yes")
def apply(
    names: Names = None,
    prune: Prune = False,
    yes: Yes = False,
    preflight: Preflight = True,
    code: Code = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Create and update the schedules as declared. Applying twice, or two people at once, has the effect of once.

    Live schedules are updated in place, with their pipelines and parameters. You can repeat the command after an
    interruption or a lost connection.
    """
    loaded = load_settings(settings, environment)
    packed = project_code.pack(loaded, schedule=True) if code else None
    loaded = packed.settings if packed else loaded
    actions, now = reconcile.plan_all(loaded, names or (), prune=prune), datetime.now(UTC)
    console(as_json).print(schedule_view.render_plan(actions, now, {}))
    if any(action.pending for action in actions):
        confirm(f"{schedule_view.summarize(actions)}. Continue?", yes, "vgp schedule plan")
    log = partial(print_lines, stderr=as_json)
    if packed:
        log(f"{packed} {'uploaded' if project_code.upload(packed) else 'is already there'}")
    outcomes = reconcile.apply_all(loaded, actions, preflight=preflight, log=log)
    if as_json:
        applied = [{"name": outcome.name, "schedule": outcome.resource, "did": outcome.did} for outcome in outcomes]
        print_json({"applied": applied, **schedule_view.plan_json(actions, now, {})})


@schedule.command("list", epilog="Example: vgp schedule list --env prod --json")
def list_(environment: Environment = None, settings: SettingsFile = None, as_json: Json = False) -> None:
    """List every schedule of the project and region; those of vgp with their last run."""
    rows = schedule_list.list_rows(load_settings(settings, environment))
    if as_json:
        print_json([row.as_json() for row in rows])
    else:
        console().print(
            schedule_view.render_list(rows)
            if rows
            else "There are no schedules. Create the declared ones: vgp schedule apply."
        )


@schedule.command(epilog="Example: vgp schedule pause nightly")
def pause(
    name: One, environment: Environment = None, settings: SettingsFile = None, as_json: Json = False
) -> None:  # fmt: skip
    """Start no more runs until resume or apply. Active runs continue.

    The next apply resumes the schedule, unless pipelines.toml has paused = true.
    """
    _set_state(name, "paused", None, settings, environment, as_json)


@schedule.command(epilog="Example: vgp schedule resume nightly --catch-up")
def resume(
    name: One,
    catch_up: Annotated[
        bool | None,
        typer.Option("--catch-up/--no-catch-up", help="Also start the runs missed in the pause; default: as declared."),
    ] = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Resume a schedule from its next time on; with --catch-up also start the runs missed in the pause."""
    _set_state(name, "active", catch_up, settings, environment, as_json)


@schedule.command(epilog="Example: vgp schedule backfill nightly --from 2026-10-01 --to 2026-10-31")
def backfill(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A declared schedule.")],
    first: Annotated[str, typer.Option("--from", metavar="DAY", help="The first day, by the schedule's time zone.")],
    last: Annotated[str, typer.Option("--to", metavar="DAY", help="The last day, included.")],
    retry: Annotated[bool, typer.Option("--retry", help="Also retry failed nights, with their pinned inputs.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the nights and their maximum costs.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Allow more than 100 nights.")] = False,
    preflight: Preflight = True,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Run past nights of a schedule, each once and as of its own time, with the current declaration.

    At most max_concurrent_runs of the schedule run at a time; the command waits for all of them. It skips nights that
    have run, from the schedule or a backfill. It is safe to interrupt and repeat: no night starts twice.

    Exit codes: 0 all nights succeeded; 1 a night failed; 2 invalid request; 4 nothing was started, because all nights
    had ended before; 130 Ctrl-C.
    """
    loaded = load_settings(settings, environment)
    days = parse_day(first, "--from"), parse_day(last, "--to")
    plan = nights.backfill(loaded, name, *days, retry=retry, yes=yes or dry_run)
    log = partial(print_lines, stderr=as_json)
    if dry_run:
        log(f"dry run: {backfill_page.summarize_plan(plan)}")
        if as_json:
            print_json(backfill_page.plan_json(plan))
        else:
            console().print(backfill_page.render_plan(plan))
        return
    log(("" if plan.todo else "nothing was started: ") + backfill_page.summarize_plan(plan))
    try:
        runs = nights.run(loaded, plan, preflight=preflight, log=log)
    except KeyboardInterrupt:
        log("stopped; active runs continue. Repeat the command to run the remaining nights.")
        raise typer.Exit(DETACHED) from None
    if as_json:
        print_json(backfill_page.results_json(loaded, plan, runs))
    else:
        console().print(backfill_page.render_results(loaded, plan, runs))
    raise typer.Exit(backfill_page.exit_code(plan, runs))


@schedule.command(epilog="Example: vgp schedule delete nightly --yes")
def delete(
    name: One, yes: Yes = False, environment: Environment = None, settings: SettingsFile = None, as_json: Json = False
) -> None:
    """Delete a schedule of vgp. Its runs stay, and active runs continue.

    Deleting a schedule that is already gone is not an error if it is declared or has runs.
    """
    loaded = load_settings(settings, environment)
    deleted = schedule_control.delete(
        loaded, name, confirm=lambda: confirm(f"Delete the schedule {name}?", yes, "vgp schedule plan")
    )
    if as_json:
        print_json({"name": name, "deleted": deleted})
        return
    print_lines(f"deleted {name}" if deleted else f"{name} is not on Vertex AI; there is nothing to delete")
    if name in loaded.schedules:
        print_lines(f"pipelines.toml still declares it; the next apply creates it{' again' if deleted else ''}.")


def _set_state(
    name: str, target: str, catch_up: bool | None, file: Path | None, environment: str | None, as_json: bool
) -> None:
    """Pauses or resumes schedules, and warns if the next apply would undo the change."""
    loaded = load_settings(file, environment)
    changes = schedule_control.set_state(loaded, name, target, catch_up=catch_up)
    if as_json:
        print_json(changes)
        return
    for change in changes:
        print_lines(f"{change['name']} is{'' if change['changed'] else ' already'} {change['state']}")
    declared = schedule_control.find_declared_state(loaded, changes)
    if declared:
        keep = "false" if declared == "paused" else "true"
        fix = f"To keep this state, set paused = {keep}."
        print_lines(f"pipelines.toml differs: the next apply makes the schedule {declared}. {fix}")


@app.command(epilog="Example: vgp doctor --env prod")
def doctor(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Schedules; default: all.")] = None,
    since: Annotated[str, typer.Option(help="Report nights since: 12h, 7d, 2w, or a date.")] = "30d",
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Report for every schedule the last good night, failed and missed nights with step and error, and what to do.

    A night is a time at which a schedule starts a run. Exit codes: 0 all is well; 1 a night after the last good one
    failed or was missed, or a live schedule differs from its declaration.
    """
    diagnoses = schedule_doctor.diagnose_schedules(load_settings(settings, environment), names or (), since)
    well = all(diagnosis.ok for diagnosis in diagnoses)
    if as_json:
        print_json({"ok": well, "schedules": [diagnosis.as_json() for diagnosis in diagnoses]})
    else:
        console().print(schedule_doctor.render_page(diagnoses, since), highlight=False)
    raise typer.Exit(int(not well))
