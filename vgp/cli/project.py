"""The verbs over a repository of one's own: new project, new table, update."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from vgp.base.documents.json_text import JsonObject
from vgp.cli.options import Json, SettingsFile, at_first_use, console, print_json, repository_of, say

if TYPE_CHECKING:
    from rich.table import Table

with at_first_use():
    from vgp.base.text import figures as drawn
    from vgp.base.text import printable
    from vgp.workflow.local import training_code
    from vgp.workflow.project import project_files

app = typer.Typer()
new = typer.Typer(help="Write a repository of your own, or the task of a table.", no_args_is_help=True)
app.add_typer(new, name="new", epilog="Example: vgp new table titanic.csv --target survived")


@new.callback()
def group() -> None:
    pass


@new.command(epilog="Example: vgp new project churn && cd churn && ./setup.sh")
def project(
    name: Annotated[str, typer.Argument(help="Its name, and that of the folder that is made here.")],
    as_json: Json = False,
) -> None:
    """Write a repository that compiles, checks, trains on this machine and passes its own test.

    It has two workflows, their steps, a task to edit, settings, a Dockerfile, CI and a test; and the library as one
    file, the wheel of this version. Everything else is yours from now on.
    """
    folder = project_files.write(name)
    if as_json:
        print_json({"path": str(folder)})
    else:
        print(_NEXT.format(name=name))


_NEXT = """\
Wrote {name}. Next:
  cd {name}
  ./setup.sh                  # installs the library and its tested dependencies into .venv
  source .venv/bin/activate
  vgp compile                 # checks every machine and compiles every workflow
  vgp run training --set epochs=40 --set global_batch_size=64 --set learning_rate=5e-3
  python -m unittest discover tests
The run trains on 1,797 handwritten digits. README.md explains the files and the next changes."""


@new.command(epilog="Example: vgp new table titanic.csv --target survived --out titanic.toml")
def table(
    data: Annotated[
        str, typer.Argument(help="Files, folders, globs, gs:// (CSV, Parquet, JSON lines), separated by commas.")
    ],
    target: Annotated[
        str | None, typer.Option(help="The column that is to be predicted; without it the columns are listed.")
    ] = None,
    kind: Annotated[
        Literal["classes", "regression"] | None,
        typer.Option(
            help="What is learned; default: regression for a number with more than 20 different values, or with "
            "decimals, else classes."
        ),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(help="Of two classes the one that is looked for; default: by its name, else the rarer."),
    ] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A class whose rows are left out; repeatable.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="A column that names the rows, with others if repeated; default: found.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            help="The column with the time of each row: later rows test; default: found; none: rows are split "
            "at random."
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="What rows belong to, such as a customer: never parted. row: every row by itself; day: the day of the "
            "time. Default: found, or asked for where rows that share a value share the target."
        ),
    ] = None,
    read: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=TYPE",
            help="How to read a column that can be read in more than one way, such as 'price=number 1,234.5'; "
            "repeatable.",
        ),
    ] = None,
    out: Annotated[str, typer.Option(help="The file to write; its name ends in .toml.")] = "task.toml",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Look at a table and write the task.toml that trains on it, without a line of Python.

    It reads up to 100,000 rows from all over the data, proposes the type of every column, key, time and group, leaves
    out columns that would tell the target by themselves or can tell nothing, and says why. Look at what it says: only
    you know which columns are known before the outcome. Then:

        vgp run training --set task=task.toml --set data=DATA
    """
    options = {"target": target, "kind": kind, "positive": positive, "time": time, "group": group, "out": out}
    texts = [f"--{name}={value}" for name, value in options.items() if value is not None]
    texts += [f"--leave-out={value}" for value in leave_out or ()] + [f"--key={value}" for value in key or ()]
    texts += [f"--read={value}" for value in read or ()]
    words = ["table", "--json", *texts, *(["--force"] if force else []), "--", data]
    made = training_code.ask(repository_of(settings).root, words, failed="the table could not be looked at")
    if as_json:
        return print_json(made)
    what = "a regression: " if made["kind"] == "regression" else ""
    console().print(_columns(made))
    say(
        *(
            f"Look at {printable.one_line(column['name'])}: {doubt}. If it is known only after the outcome, take its "
            "line out."
            for column in made["columns"]
            if (doubt := column.get("doubt"))  # a copy of the training code may be an older one
        ),
        f"Wrote {made['file']}, from {made['looked']}: {what}{made['why']}.",
        f"Next: {made['next']}",
    )


def _columns(made: JsonObject) -> "Table":
    """What each column is to the task, and why: what is left out last."""
    from rich.text import Text

    colours = {"target": "bold", "leak": "red", "ignored": "dim"}
    ordered = sorted(made["columns"], key=lambda column: column["role"] in ("leak", "ignored"))
    cells = [
        tuple(
            Text(printable.one_line(column[part]), "yellow" if column.get("doubt") else colours.get(column["role"], ""))
            for part in ("name", "type", "role", "why")
        )
        for column in ordered
    ]
    return drawn.table(("column", "type", "is", "why"), cells)


@app.command(epilog="Example: vgp update --dry-run")
def update(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing: say what would change.")] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Let the project take this version of the library, and show what our own workflows have changed since.

    The wheel and the line that pins it are replaced. Workflows, steps, tasks and settings are yours and stay as they
    are: what our own have become is printed as a diff, for you to take over what you want.
    """
    change = project_files.plan(repository_of(settings).root)
    if not dry_run:
        project_files.apply(change)
    paths = [*change.writes, *([change.removes] if change.removes else [])]
    if as_json:
        values = {"from": change.before, "to": change.after, "dry_run": dry_run, "files": paths, "diff": change.diff}
        return print_json(values)
    if not paths:
        return print(f"Nothing to do: the project has version {change.after}, as this command.")
    if change.diff:
        print(change.diff)
        say("Above: what changed in ours since. Your own files stay as they are.")
    print(f"{'Would change' if dry_run else 'Changed'} {', '.join(paths)}: {change.before} -> {change.after}.")
    if not dry_run:
        print("Next: ./setup.sh, then vgp image build.")
