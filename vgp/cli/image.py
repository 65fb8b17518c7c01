"""The verb `image build`: builds the images of the steps."""

from typing import Annotated

import typer

from vgp.cli.options import Environment, Json, SettingsFile, console, import_lazily, load_settings, print_json

with import_lazily():
    from vgp.vertex.images import image_build

app = typer.Typer()
image = typer.Typer(help="Build the image that all steps run in.", no_args_is_help=True)
app.add_typer(image, name="image", epilog="Example: vgp image build --env prod")


@image.callback()
def group() -> None:
    pass


@image.command(epilog="Example: vgp image build --env prod")
def build(
    service_account: Annotated[
        str | None,
        typer.Option(
            help="Account of the build; default: build_service_account, else the default of Cloud Build.",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="IMAGE", help="Base image for GPUs, by digest; default: that of the Dockerfile."),
    ] = None,
    allow_dirty: Annotated[bool, typer.Option("--allow-dirty", help="Build uncommitted sources.")] = False,
    write: Annotated[
        bool, typer.Option("--write/--no-write", help="Write the digest into pipelines.toml, or only print it.")
    ] = True,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Build nothing; print the equivalent gcloud command.")
    ] = False,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Build the image of the steps with Cloud Build, and write its digest into pipelines.toml.

    If torch_index is set and the Dockerfile has a target light, also build the light image, for steps without a GPU.
    If an image of these sources exists (tag source-...), it is not built. The command follows the log of the build.
    You can repeat it after an interruption or a lost connection.
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
