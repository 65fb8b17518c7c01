"""The verbs of registered models: models list, show, compare, promote, rollback, alias, unalias, reject, delete,
clean."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from vgp.base.documents.json_text import JsonObject
from vgp.cli import options
from vgp.cli.options import Environment, Json, SettingsFile, at_first_use, confirm, print_json, print_lines

with at_first_use():
    from vgp.vertex import model_view, registered_models

app = typer.Typer()
models = typer.Typer(
    help="Registered models: versions, the champion, promotion and rollback.\n\n"
    "By default: runs/registry, the registry of runs on this machine. --env NAME or --vertex: the registry of the "
    "settings, for runs on Vertex AI. --registry: any other. A VERSION is a number or an alias, such as champion. All "
    "verbs are safe to repeat: docs/how-to/promote-and-roll-back.md.",
    no_args_is_help=True,
)
app.add_typer(models, name="models", epilog="Example: vgp models list --env prod")

Registry = Annotated[
    str | None, typer.Option("--registry", metavar="ROOT", help="The registry: a folder, or gs://BUCKET/FOLDER.")
]
Vertex = Annotated[bool, typer.Option("--vertex", help="The registry of the settings.")]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Name of the model; default: the only one.")]
Why = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="The reason, for the history of the registry.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")]
One = Annotated[str, typer.Argument(metavar="VERSION", help="Number of a version, or an alias.")]


@models.command("list", epilog="Example: vgp models list --env prod")
def list_(
    limit: Annotated[
        int, typer.Option(min=0, help="Show this many versions of each model, newest first; 0: all.")
    ] = 20,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """List the models and their versions, newest first: alias, state, metrics, data and run."""
    listing = registered_models.listing(_place(registry, vertex, environment, settings), model)
    options.show(model_view.newest(listing, limit), as_json, model_view.listing)


@models.command(epilog="Example: vgp models show champion")
def show(
    version: Annotated[
        str, typer.Argument(metavar="[VERSION]", help="Number of a version, or an alias.", show_default=True)
    ] = "champion",
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Show a version: its origin, metrics and history.

    For the champion also: its start, the reason, the version it replaced, and the target of a rollback.
    """
    details = registered_models.ask(_place(registry, vertex, environment, settings), "show", version, model=model)
    options.show(details, as_json, lambda details: model_view.version(details, datetime.now(UTC)))


@models.command(epilog="Example: vgp models compare 6 champion")
def compare(
    versions: Annotated[list[str], typer.Argument(metavar="VERSION VERSION...", help="Numbers or aliases.")],
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Compare versions side by side: metrics, and the facts in which they differ.

    The metrics of each version come from its own run. If the test windows differ, so do the test rows. A comparison on
    equal rows is in the decision (vgp models show) and in the report of the run.
    """
    facts = registered_models.ask(_place(registry, vertex, environment, settings), "compare", *versions, model=model)
    options.show(facts, as_json, model_view.comparison)


@models.command(epilog='Example: vgp models promote 7 --env prod --why "checked on the Christmas weeks"')
def promote(
    version: One,
    why: Why = None,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Make a version the champion. This approves a candidate that waits for approval.

    The command refuses a deleted or rejected version and one whose files are gone. For the champion it does nothing.
    """
    _change(_place(registry, vertex, environment, settings), as_json, "promote", version, model=model, why=why)


@models.command(epilog='Example: vgp models rollback --env prod --why "complaints since Monday"')
def rollback(
    origin: Annotated[
        int | None,
        typer.Option("--from", metavar="N", help="The champion to roll back; required to go back more than once."),
    ] = None,
    why: Why = None,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Restore the version that the champion replaced.

    A repeated rollback does nothing: to roll back a champion that came by a rollback, use --from with its number. So a
    lost reply or two people at once cannot go back twice.
    """
    words = [] if origin is None else [f"--from={origin}"]
    _change(_place(registry, vertex, environment, settings), as_json, "rollback", model=model, why=why, flags=words)


@models.command(epilog="Example: vgp models alias stable 6")
def alias(
    alias: Annotated[
        str, typer.Argument(metavar="ALIAS", help="2 to 128 letters, digits and -; the first is a lower-case letter.")
    ],
    version: One,
    why: Why = None,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Move an alias to a version. Only promote and rollback move the alias champion."""
    _change(_place(registry, vertex, environment, settings), as_json, "alias", alias, version, model=model, why=why)


@models.command(epilog="Example: vgp models unalias stable")
def unalias(
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="The alias to remove.")],
    why: Why = None,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Remove an alias. Without a champion, the next run is compared with the baseline."""
    _change(_place(registry, vertex, environment, settings), as_json, "unalias", alias, model=model, why=why)


@models.command(epilog='Example: vgp models reject 8 --why "worse for the small airports"')
def reject(
    version: One,
    why: Why = None,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Reject a version, such as a waiting candidate: it never becomes champion. Its files stay."""
    _change(_place(registry, vertex, environment, settings), as_json, "reject", version, model=model, why=why)


@models.command(epilog="Example: vgp models delete 3 --yes")
def delete(
    version: One,
    yes: Yes = False,
    why: Why = None,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Delete the files of a version for good. Its number and its history stay.

    The command refuses a version that has an alias.
    """
    place = _place(registry, vertex, environment, settings)
    if not yes:
        preview = registered_models.ask(place, "delete", version, model=model, options=["--dry-run"])
        if preview["changed"]:  # otherwise the version is deleted already
            confirm(f"Delete version {preview['event']['version']} of {preview['model']} from {place.root}?", yes)
    _change(place, as_json, "delete", version, model=model, why=why)


@models.command(epilog="Example: vgp models clean --dry-run")
def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the copies to delete; delete nothing.")] = False,
    yes: Yes = False,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Name of the model; default: all.")
    ] = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Remove incomplete copies of models, left in the registry by killed runs. Shows them and asks first.

    Copies changed within the last day stay, because a release may still be writing them. Versions are never removed.
    """
    place = _place(registry, vertex, environment, settings)
    preview = registered_models.ask(place, "clean", model=model, options=["--dry-run"])
    if dry_run or not any(copy["goes"] for copy in preview["copies"]):
        return options.show(preview, as_json, model_view.copies)
    options.console(stderr=True).print(model_view.copies(preview))
    confirm(f"Delete them from {place.root}?", yes)
    result = registered_models.ask(place, "clean", model=model)
    print_json(result) if as_json else print_lines(result["said"])


def _place(
    registry: str | None, vertex: bool, environment: str | None, settings: Path | None
) -> "registered_models.Place":
    return registered_models.find_place(settings, environment, registry=registry, vertex=vertex)


def _change(
    place: "registered_models.Place", as_json: bool, verb: str, *words: str, model: str | None, why: str | None,
    flags: Sequence[str] = (),
) -> None:  # fmt: skip
    """Changes the registry, updates Vertex AI's Model Registry, and prints the changes."""
    result: JsonObject = registered_models.change(place, verb, *words, model=model, why=why, options=flags)
    if as_json:
        print_json(result)
    else:
        print_lines(result["said"])
        print_lines(*(f"Vertex AI: {change}" for change in result.get("vertex", ())), stderr=True)
