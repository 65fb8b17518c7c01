"""The verbs of pipeline templates: upload, templates."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from vgp.base import whole_files
from vgp.base.documents.bounded_text import refuse_address
from vgp.cli.options import (
    Environment,
    Json,
    SettingsFile,
    Workflow,
    at_first_use,
    console,
    load_settings,
    print_json,
    print_lines,
    show,
)
from vgp.settings.schedule_settings import parse

with at_first_use():
    from vgp.vertex.templates import template as versions
    from vgp.vertex.templates import upload as uploads
    from vgp.workflow.compiling import source_commit

app = typer.Typer()

Place = Annotated[
    str | None,
    typer.Option(
        "--to", "--repository", metavar="PLACE",
        help="https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY, or gs://BUCKET/FOLDER; default: template_repository.",
    ),
]  # fmt: skip
Reference = Annotated[
    str, typer.Argument(metavar="TEMPLATE", help="NAME:TAG, NAME@sha256:... or NAME, which means NAME:latest.")
]


@app.command(epilog="Example: vgp upload training --env prod --tag v3")
def upload(
    name: Workflow,
    tag: Annotated[list[str] | None, typer.Option(help="A tag of your own; repeatable.")] = None,
    place: Place = None,
    max_usd: Annotated[float | None, typer.Option(help="Upload nothing if a run can cost more than this.")] = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Publish a pipeline as a template: compiled, checked, uploaded, downloaded again and verified by its digest.

    Its tags are `latest`, the git commit (without uncommitted changes), and your own. Equal content is one version, so
    you can repeat the command after an interruption.
    """
    loaded = load_settings(settings, environment)
    done, commit = uploads.publish(
        name, tag or (), settings=loaded, console=console(as_json), place=place, max_usd=max_usd
    )
    print_lines(*_uploaded(done, commit), stderr=as_json)
    if as_json:
        print_json({**done.as_json(), "commit": commit.sha if commit.tags else None})


def _uploaded(done: "uploads.Uploaded", commit: "source_commit.Commit") -> list[str]:
    """Returns lines on the uploaded version and its tags."""
    moved = {tag: f" (before: {digest[:19]})" for tag, digest in done.moved.items()}
    how = "uploaded" if done.new else "existed already"
    return [
        f"{done.name}@{done.version.digest}",
        f"{how}, {done.version.size:,} bytes, verified by download",
        done.location,
        "tags: " + ", ".join(tag + moved.get(tag, "") for tag in done.tags),
        *([f"not tagged with the commit: {commit.because}"] if commit.because else []),
    ]


class ListByDefault(TyperGroup):
    """`vgp templates training` means `vgp templates list training`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["list", *args]
        return super().parse_args(ctx, args)


templates = typer.Typer(cls=ListByDefault, help="List uploaded templates and their versions; move tags, pin, download.")
app.add_typer(templates, name="templates", epilog="Example: vgp templates training")


@templates.command("list", epilog="Example: vgp templates training --limit 20")
def list_(
    name: Annotated[str | None, typer.Argument(help="A template: list its versions.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Show this many, newest first; 0: all.")] = 100,
    place: Place = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """List the templates, or all versions of one with their tags, newest first."""
    loaded = load_settings(settings, environment)
    if name is None:
        rows, table = versions.packages(loaded, place=place), versions.packages_table
    else:
        rows, table = versions.versions(loaded, name, place=place), versions.versions_table
    shown = rows[: limit or None]
    show(shown, as_json, table)
    if len(shown) < len(rows):
        console(stderr=True).print(f"showing {len(shown)} of {len(rows)}; show all with --limit 0", highlight=False)


@templates.command("show", epilog="Example: vgp templates show training:v3")
def show_(
    template: Reference,
    place: Place = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Show a version: digest, tags and parameters."""
    show(versions.detail(load_settings(settings, environment), template, place=place), as_json, versions.card)


@templates.command(epilog="Example: vgp templates pin training:v3")
def pin(
    template: Reference, place: Place = None, environment: Environment = None, settings: SettingsFile = None
) -> None:
    """Print the URI with digest of the version that a tag points to now, for reproducible runs."""
    print(versions.resolve(load_settings(settings, environment), template, place=place).location)


@templates.command(epilog="Example: vgp templates download training:v3 --out training.json")
def download(
    template: Reference,
    out: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
    place: Place = None,
    environment: Environment = None,
    settings: SettingsFile = None,
) -> None:
    """Download a version, verified by its digest."""
    if out is not None:
        refuse_address(out, "--out")
    content = versions.resolve(load_settings(settings, environment), template, place=place).content
    if out is None:
        typer.echo(content, nl=False)
        return
    whole_files.write(out, content)


@templates.command(epilog="Example: vgp templates tag training@sha256:4be6d0f1 stable")
def tag(
    template: Reference,
    tag: Annotated[str, typer.Argument(help="The tag to create or move.")],
    place: Place = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Point a tag to a version, whether or not the tag exists. Safe to repeat."""
    digest, before = uploads.move_tag(load_settings(settings, environment), template, tag, place=place)
    name = parse(template).name
    if as_json:
        print_json({"name": name, "tag": tag, "version": digest, "before": before})
        return
    how = "" if before in (None, digest) else f" (before: {before})"
    typer.echo(f"{name}:{tag} -> {digest}{how}")


@templates.command(epilog="Example: vgp templates untag training:stable")
def untag(
    template: Annotated[str, typer.Argument(metavar="TEMPLATE", help="NAME:TAG.")],
    place: Place = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Remove a tag. The version stays."""
    digest = uploads.remove_tag(load_settings(settings, environment), template, place=place)
    reference = parse(template)
    if as_json:
        print_json({"name": reference.name, "tag": reference.tag, "version": digest})
    else:
        typer.echo(f"removed {template}; the version {reference.name}@{digest} stays")
