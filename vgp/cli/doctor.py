"""The verb that tells how the schedules are: doctor."""

from typing import Annotated

import typer

from vgp.cli.options import Environment, Json, SettingsFile, console, load_settings, print_json

app = typer.Typer()


@app.command(epilog="Example: vgp doctor --env prod")
def doctor(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Schedules; default: all.")] = None,
    since: Annotated[str, typer.Option(help="Nights since: 12h, 7d, 2w, or a date.")] = "30d",
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Tell of every schedule the last good night, failed and missed ones with step and error, and what to do.

    A night is a time at which a schedule is to start a run. Exit codes: 0 all is well; 1 something is wrong now: a
    night since the last good one failed or was missed, or a schedule is not live as declared.
    """
    from vgp.vertex.schedules import schedule_doctor

    diagnoses = schedule_doctor.examine(load_settings(settings, environment), names or (), since)
    well = all(diagnosis.ok for diagnosis in diagnoses)
    if as_json:
        print_json({"ok": well, "schedules": [diagnosis.as_json() for diagnosis in diagnoses]})
    else:
        console().print(schedule_doctor.page(diagnoses, since), highlight=False)
    raise typer.Exit(int(not well))
