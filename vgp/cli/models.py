"""The verbs of registered models: models list, show, compare, promote, rollback, alias, unalias, reject, delete,
clean."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from vgp.base.documents.json_text import JsonObject
from vgp.cli import options
from vgp.cli.options import Environment, Json, SettingsFile, at_first_use, confirm, print_json, say

with at_first_use():
    from vgp.vertex import model_view, registered_models

app = typer.Typer()
models = typer.Typer(
    help="Registered models: versions, the champion, promotion and rollback.\n\n"
    "Meant is the registry of the runs on this machine, runs/registry; with --env NAME or --vertex that of the runs on "
    "Vertex AI, of the settings; with --registry any other. A VERSION is a number or an alias, such as "
    "champion. Every verb may be repeated, and killed and repeated: docs/how-to/promote-and-roll-back.md.",
    no_args_is_help=True,
)
app.add_typer(models, name="models", epilog="Example: vgp models list --env prod")

Registry = Annotated[
    str | None, typer.Option("--registry", metavar="ROOT", help="The registry: a folder, or gs://BUCKET/FOLDER.")
]
Vertex = Annotated[bool, typer.Option("--vertex", help="The registry of the settings.")]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Name of the model; default: the only one.")]
Why = Annotated[str | None, typer.Option("--why", metavar="TEXT", help="The reason; the history keeps it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal.")]
One = Annotated[str, typer.Argument(metavar="VERSION", help="Number of a version, or an alias.")]


@models.command("list", epilog="Example: vgp models list --env prod")
def list_(
    limit: Annotated[int, typer.Option(min=0, help="The newest so many of each model; 0: all.")] = 20,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """List the models and their versions, the newest first: alias, state, metrics, data and run."""
    told = registered_models.listing(_place(registry, vertex, environment, settings), model)
    options.show(model_view.newest(told, limit), as_json, model_view.listing)


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
    """Show a version: where it came from, how good it is, and what became of it.

    Of the champion first: since when it runs, why, what it replaced, and where a rollback leads.
    """
    told = registered_models.ask(_place(registry, vertex, environment, settings), "show", version, model=model)
    options.show(told, as_json, lambda told: model_view.version(told, datetime.now(UTC)))


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
    """Put versions side by side: metrics, and the facts in which they differ.

    The metrics are those of each version's own run. Where the test windows differ they are of other rows: what was
    tested on the same rows stands in the decision (show), and in the report.
    """
    told = registered_models.ask(_place(registry, vertex, environment, settings), "compare", *versions, model=model)
    options.show(told, as_json, model_view.comparison)


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
    """Make a version the champion. A candidate that waits for a person is approved by it.

    A deleted or rejected version is not promoted, nor one whose files are gone. One that is the champion stays it.
    """
    _change(_place(registry, vertex, environment, settings), as_json, "promote", version, model=model, why=why)


@models.command(epilog='Example: vgp models rollback --env prod --why "complaints since Monday"')
def rollback(
    origin: Annotated[
        int | None,
        typer.Option("--from", metavar="N", help="The champion to take back; needed to go back further than once."),
    ] = None,
    why: Why = None,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Make the version champion again that the champion replaced.

    Repeated, it does nothing: a champion that came by a rollback is taken back only with --from and its number, so an
    answer that was lost, or two people at once, do not go back twice.
    """
    words = [] if origin is None else [f"--from={origin}"]
    _change(_place(registry, vertex, environment, settings), as_json, "rollback", model=model, why=why, flags=words)


@models.command(epilog="Example: vgp models alias stable 6")
def alias(
    alias: Annotated[
        str, typer.Argument(metavar="ALIAS", help="2 to 128 letters, digits and -, a small letter first.")
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
    """Give a version a name, which no other version has then. The champion's is moved by promote and rollback."""
    _change(_place(registry, vertex, environment, settings), as_json, "alias", alias, version, model=model, why=why)


@models.command(epilog="Example: vgp models unalias stable")
def unalias(
    alias: Annotated[str, typer.Argument(metavar="ALIAS", help="The name.")],
    why: Why = None,
    model: Model = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Take a name away. Without a champion the next run is compared with the baseline."""
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
    """Decide that a version, such as a candidate that waits, never becomes champion. Its files stay."""
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
    """Delete a version's files, which cannot be undone. Its number and its history stay.

    A version that has an alias is not deleted.
    """
    place = _place(registry, vertex, environment, settings)
    if not yes:
        told = registered_models.ask(place, "delete", version, model=model, options=["--dry-run"])
        if told["changed"]:  # else it is deleted already: nothing to ask
            confirm(f"Delete version {told['event']['version']} of {told['model']} from {place.root}?", yes)
    _change(place, as_json, "delete", version, model=model, why=why)


@models.command(epilog="Example: vgp models clean --dry-run")
def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would go; delete nothing.")] = False,
    yes: Yes = False,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Of this model; default: of all.")
    ] = None,
    registry: Registry = None,
    vertex: Vertex = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Remove copies of models that a killed run left in the registry, and that no version is. Shows them, and asks.

    What was written to within a day stays, however it looks: a release may be at work there. No version is touched.
    """
    place = _place(registry, vertex, environment, settings)
    told = registered_models.ask(place, "clean", model=model, options=["--dry-run"])
    if dry_run or not any(copy["goes"] for copy in told["copies"]):
        return options.show(told, as_json, model_view.copies)
    options.console(stderr=True).print(model_view.copies(told))
    confirm(f"Delete them from {place.root}?", yes)
    told = registered_models.ask(place, "clean", model=model)
    print_json(told) if as_json else say(told["said"])


def _place(
    registry: str | None, vertex: bool, environment: str | None, settings: Path | None
) -> "registered_models.Place":
    return registered_models.find_place(settings, environment, registry=registry, vertex=vertex)


def _change(
    place: "registered_models.Place", as_json: bool, verb: str, *words: str, model: str | None, why: str | None,
    flags: Sequence[str] = (),
) -> None:  # fmt: skip
    """Changes the record, brings Vertex AI's registry after it, and says what was done."""
    told: JsonObject = registered_models.change(place, verb, *words, model=model, why=why, options=flags)
    if as_json:
        print_json(told)
    else:
        say(told["said"])
        say(*(f"Vertex AI: {words}" for words in told.get("vertex", ())), stderr=True)
