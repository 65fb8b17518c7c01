"""The verbs over a repository of one's own: new project, update."""

from typing import Annotated

import typer

from vgp.cli import extras
from vgp.cli.options import Json, SettingsFile, print_json
from vgp.errors import RequestError
from vgp.text.figures import plural

app = typer.Typer()
new = typer.Typer(help="Write a repository of your own.", no_args_is_help=True)
app.add_typer(new, name="new", epilog="Example: pipelines new project churn")


@new.callback()
def group() -> None:
    pass


@new.command(epilog="Example: pipelines new project churn && cd churn && ./setup.sh")
def project(
    name: Annotated[str, typer.Argument(help="Its name, and that of the folder that is made here.")],
    as_json: Json = False,
) -> None:
    """Write a repository that compiles, checks, trains on this machine and passes its own test.

    It has a workflow, its steps, a task to edit, settings, a Dockerfile, CI and a test; and a copy of the training code
    of this version, which `pipelines update` renews.
    """
    from vgp.project.new import write

    folder = write(name, extras.portable_requirement())
    if as_json:
        print_json({"path": str(folder)})
    else:
        print(_NEXT.format(name=name))


_NEXT = """\
Wrote {name}. Next:
  cd {name}
  ./setup.sh                     .venv, with everything in the versions that were tested together; or, if it is there:
  pipelines compile              every workflow to JSON, every machine checked
  pipelines run training         the whole workflow on this machine, on 336,776 flights
  python -m unittest discover tests
README.md says what is where, and what to change first."""


@app.command(epilog="Example: pipelines update --dry-run")
def update(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing: say what would change.")] = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave files that you edited as they are.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files that you edited.")] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Renew the training code that `pipelines new project` copied: to that of this version of the command.

    Workflows, tasks and settings are yours and stay. A copied file that you edited is never replaced unasked.
    """
    from vgp.project.update import apply, other_base, plan
    from vgp.settings import repository_of

    if keep and overwrite:
        raise RequestError("--keep and --overwrite exclude each other: files that you edited stay, or are replaced.")
    renewal = plan(repository_of(settings).root, extras.portable_requirement())
    changes = renewal.changes
    if not dry_run:
        changes = apply(renewal, "keep" if keep else "overwrite" if overwrite else "refuse")
    if as_json:
        print_json(
            {
                "from": renewal.before.version,
                "to": renewal.after.version,
                "dry_run": dry_run,
                "changes": [
                    {"path": change.path, "action": change.action, "edited": change.edited} for change in changes
                ],
            }
        )
        return
    for change in changes:
        print(f"{change.action:8}{change.path}{'  (edited by you)' if change.edited else ''}")
    if dry_run and changes:
        print(f"Would change: {plural(len(changes), 'file')}, {renewal.before.version} -> {renewal.after.version}.")
    elif changes:
        print(f"Changed: {plural(len(changes), 'file')}, {renewal.before.version} -> {renewal.after.version}: git diff")
    else:
        print(f"Nothing to do: the copy is that of version {renewal.after.version}.")
    if note := other_base(renewal.root):
        print(note)
