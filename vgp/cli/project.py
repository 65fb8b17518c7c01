"""The verbs that write and update a project: new project, new table, update."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from vgp.base.documents.json_text import JsonObject
from vgp.cli.options import Json, SettingsFile, at_first_use, console, print_json, print_lines, repository_of

if TYPE_CHECKING:
    from rich.table import Table

with at_first_use():
    from vgp.base.text import figures as drawn
    from vgp.base.text import printable
    from vgp.workflow.local import training_code
    from vgp.workflow.project import project_files

app = typer.Typer()
new = typer.Typer(help="Write a new project, or the task of a table.", no_args_is_help=True)
app.add_typer(new, name="new", epilog="Example: vgp new table titanic.csv --target survived")


@new.callback()
def group() -> None:
    pass


@new.command(epilog="Example: vgp new project churn && cd churn && ./setup.sh")
def project(
    name: Annotated[str, typer.Argument(help="Name of the project and of its new folder here.")],
    as_json: Json = False,
) -> None:
    """Write a repository that compiles, checks, trains on this machine and passes its own test.

    It has two workflows, their steps, a task to edit, settings, a Dockerfile, CI, a test, and the wheel of this
    library. All files except the wheel are yours to edit.
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
        str | None, typer.Option(help="The column to predict; without it, the command lists the columns.")
    ] = None,
    kind: Annotated[
        Literal["classes", "regression"] | None,
        typer.Option(help="Default: regression for decimals or over 20 values, else classes."),
    ] = None,
    positive: Annotated[
        str | None,
        typer.Option(help="The positive one of two classes; default: by its name, else the rarer."),
    ] = None,
    leave_out: Annotated[list[str] | None, typer.Option(help="A class whose rows to leave out; repeatable.")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="A column that identifies rows; repeatable; default: detected.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="Column with the time of each row; default: detected; none: split at random."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            help="The column whose equal values stay in one split, such as the customer. row: no groups; day: the "
            "day of the time. Default: detected; required if rows that share a value share the target."
        ),
    ] = None,
    read: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=TYPE",
            help="How to read an ambiguous column, such as 'price=number 1,234.5'; repeatable.",
        ),
    ] = None,
    out: Annotated[str, typer.Option(help="The file to write; its name ends in .toml.")] = "task.toml",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Analyze a table and write the task.toml that trains on it, without any Python.

    The command reads up to 100,000 rows from all over the data, proposes the types of the columns, the key, time and
    group, and leaves out columns that reveal the target or carry no information, with the reasons. Check its proposals:
    only you know which columns are known before the outcome. Then:

        vgp run training --set task=task.toml --set data=DATA
    """
    options = {"target": target, "kind": kind, "positive": positive, "time": time, "group": group, "out": out}
    texts = [f"--{name}={value}" for name, value in options.items() if value is not None]
    texts += [f"--leave-out={value}" for value in leave_out or ()] + [f"--key={value}" for value in key or ()]
    texts += [f"--read={value}" for value in read or ()]
    words = ["table", "--json", *texts, *(["--force"] if force else []), "--", data]
    result = training_code.ask(repository_of(settings).root, words, failed="the table could not be analyzed")
    if as_json:
        return print_json(result)
    kind_text = "a regression: " if result["kind"] == "regression" else ""
    console().print(_columns(result))
    print_lines(
        *(
            f"Check {printable.one_line(column['name'])}: {doubt}. If known only after the outcome, delete its line."
            for column in result["columns"]
            if (doubt := column.get("doubt"))  # a copy of the training code may be an older one
        ),
        f"Wrote {result['file']}, from {result['looked']}: {kind_text}{result['why']}.",
        f"Next: {result['next']}",
    )


def _columns(result: JsonObject) -> "Table":
    """Returns a table of the columns with their roles and the reasons; left-out columns come last."""
    from rich.text import Text

    colours = {"target": "bold", "leak": "red", "ignored": "dim"}
    ordered = sorted(result["columns"], key=lambda column: column["role"] in ("leak", "ignored"))
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; show what would change.")] = False,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Update the library of a project to this version, and show how the shipped workflows have changed.

    The command replaces the wheel and the line that pins it. Your workflows, steps, tasks and settings stay unchanged;
    a diff shows the changes of the shipped ones, so that you can copy those that you want.
    """
    change = project_files.plan(repository_of(settings).root)
    if not dry_run:
        project_files.apply(change)
    paths = [*change.writes, *([change.removes] if change.removes else [])]
    if as_json:
        values = {"from": change.before, "to": change.after, "dry_run": dry_run, "files": paths, "diff": change.diff}
        return print_json(values)
    if not paths:
        return print(f"Nothing to do: the project already has version {change.after}.")
    if change.diff:
        print(change.diff)
        print_lines("The diff shows how the shipped workflows have changed. Your own files stay unchanged.")
    same = change.before == change.after
    versions = f"same version {change.after}, new content" if same else f"{change.before} -> {change.after}"
    print(f"{'Would change' if dry_run else 'Changed'} {', '.join(paths)}: {versions}.")
    if not dry_run:
        print("Next: ./setup.sh, then vgp image build.")
