"""The verbs over the one image of the steps: image build."""

from typing import Annotated

import typer

from vgp.cli.options import Environment, Json, SettingsFile, at_first_use, console, load_settings, print_json

with at_first_use():
    from vgp.vertex.images import image_build

app = typer.Typer()
image = typer.Typer(help="Build the one image that every step runs in.", no_args_is_help=True)
app.add_typer(image, name="image", epilog="Example: vgp image build --env prod")


@image.callback()
def group() -> None:
    pass


@image.command(epilog="Example: vgp image build --env prod")
def build(
    service_account: Annotated[
        str | None,
        typer.Option(
            help="Account that the build runs as; default: build_service_account, else of Cloud Build's choice.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Another base image, by digest; default: that of the Dockerfile."),
    ] = None,
    allow_dirty: Annotated[bool, typer.Option("--allow-dirty", help="Build sources that are not committed.")] = False,
    write: Annotated[
        bool, typer.Option("--write/--no-write", help="Write the digest into pipelines.toml, or only print it.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Build nothing: print the gcloud command that would do the same.")
    ] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Build the image of the steps with Cloud Build, and write its digest into pipelines.toml.

    The same sources are one image: what was built before is found by the tag source-..., and nothing is built. The
    log comes as it grows; a command that was stopped or lost its connection can simply be repeated.
    """
    loaded = load_settings(settings, environment)
    options = image_build.Options(service_account or loaded.build_service_account, base or None, allow_dirty)
    root, out = loaded.repository.root, console(as_json)
    if dry_run:
        result = image_build.plan(loaded, options, root=root, console=out)
    else:
        result = image_build.build(loaded, options, root=root, console=out, write=write)
    if as_json:
        print_json(result)
