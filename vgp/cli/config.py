"""The verbs of the settings file: init, config."""

import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgp.base import whole_files
from vgp.base.documents.toml_text import FILE_NAME
from vgp.base.errors import RequestError
from vgp.base.text.printable import printable
from vgp.cli.options import Environment, Json, SettingsFile, console, load_settings, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from vgp.settings.first_file import Answers, Question

app = typer.Typer()


@app.command(epilog="Example: vgp config --env prod, or in a script: vgp config bucket")
def config(
    key: Annotated[
        str | None,
        typer.Argument(metavar="[KEY]", help="A setting, printed as bare text; or a table, with its settings."),
    ] = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Show the effective settings and the source of each: file and line, variable, or default."""
    from vgp.settings import settings_loading

    loaded = load_settings(settings, environment)
    if key is not None:
        rows = settings_loading.list_rows(loaded, key)
        single = rows[0]["key"] == key
        if as_json:
            print_json(rows[0] if single else rows)
        elif single:
            print(settings_loading.format_value(rows[0]["value"]))
        else:
            console().print(_render_settings(rows))
        return
    overview = settings_loading.build_overview(loaded)
    if as_json:
        print_json(overview)
        return
    console().print(_render_settings(overview["values"]))
    declared = ", ".join(overview["environments"]) or "none"
    if loaded.registry_root and not loaded.registry:
        console().print(f"\nregistry of models: {loaded.registry_root}", highlight=False, markup=False, soft_wrap=True)
    for line in loaded.registry_warnings():
        console().print(f"\n{line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    console().print(f"\nenvironments: {declared}; file: {overview['file'] or 'none'}", highlight=False, markup=False)


def _render_settings(rows: list[dict[str, object]]) -> "Table":
    from rich.text import Text

    from vgp.base.text.figures import table
    from vgp.settings.settings_loading import format_value

    cells = [
        [
            Text(printable(str(cell)), "dim" if row["source"] == "default" else "")
            for cell in (row["key"], "-" if row["value"] is None else format_value(row["value"]), row["place"])
        ]
        for row in rows
    ]
    return table(("setting", "value", "from"), cells)


@app.command(epilog="Example: vgp init --project my-project --region europe-west4 --yes")
def init(
    project: Annotated[str | None, typer.Option(help="Id of the Google Cloud project.", show_default=False)] = None,
    prod_project: Annotated[
        str | None, typer.Option(help="Project of the environment prod; default: --project.", show_default=False)
    ] = None,
    region: Annotated[str | None, typer.Option(help="Region of the jobs; default: us-central1.")] = None,
    bucket: Annotated[str | None, typer.Option(help="gs://BUCKET for the runs.", show_default=False)] = None,
    image: Annotated[str | None, typer.Option(help="Image of the steps.", show_default=False)] = None,
    template_repository: Annotated[
        str | None, typer.Option(help="https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY.", show_default=False)
    ] = None,
    service_account: Annotated[
        str | None, typer.Option(help="E-mail of the account that the steps run as.", show_default=False)
    ] = None,
    build_service_account: Annotated[
        str | None, typer.Option(help="E-mail of the account that builds images.", show_default=False)
    ] = None,
    settings: SettingsFile = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; use the defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file but keep its steps.")] = False,
    as_json: Json = False,
) -> None:
    """Write a first pipelines.toml with the environments dev and prod, from your answers or from flags."""
    from vgp.settings import first_file

    path = settings or Path(FILE_NAME)
    if path.exists() and not force and not first_file.is_bare(path):
        raise RequestError(f"{path} exists. Edit it, or replace it with --force, which keeps its steps.")
    flags = {
        "project": project, "prod_project": prod_project, "region": region, "bucket": bucket, "image": image,
        "template_repository": template_repository, "service_account": service_account,
        "build_service_account": build_service_account,
    }  # fmt: skip
    answers = _collect_answers(first_file.QUESTIONS, flags, yes)
    shipped = Path(str(resources.files("vgp.workflow.project"))) / "template" / FILE_NAME
    whole_files.write(path, first_file.format_file(answers, first_file.read_steps([path, shipped])))
    if as_json:
        print_json({"path": str(path), "answers": answers})
    else:
        print(_NEXT.format(path=path))


_NEXT = """\
Wrote {path}, with the environments dev (the default) and prod. Next:
  vgp config               show the effective settings and their sources
  vgp compile              compile every pipeline to JSON and check its machines
  vgp preflight training   check that the project has everything a run needs
  vgp submit training      start a run on Vertex AI"""


def _collect_answers(questions: "tuple[Question, ...]", flags: dict[str, str | None], yes: bool) -> "Answers":
    """Returns an answer to every question, from its flag, the terminal, or its default."""
    answers = {
        question.key: question.validate(flag) for question in questions if (flag := flags[question.key]) is not None
    }
    _refuse_open_questions(questions, answers, yes)
    for question in questions:
        if question.key not in answers:
            default = question.default(answers)
            answers[question.key] = question.validate(default or "") if yes else _ask(question, default)
    return answers


def _refuse_open_questions(questions: "tuple[Question, ...]", answers: "Answers", yes: bool) -> None:
    """Raises RequestError if questions are open and there is no terminal to ask on."""
    open_ = [question for question in questions if question.key not in answers]
    if yes:
        unknown = any(question.key == "project" and question.default(answers) is None for question in open_)
        if unknown:
            raise RequestError("no project is known. Use --project, or set GOOGLE_CLOUD_PROJECT.")
    elif open_ and not sys.stdin.isatty():
        missing = ", ".join(question.flag for question in open_)
        raise RequestError(f"there is no terminal to ask on. Set {missing}, or use the defaults with --yes.")


def _ask(question: "Question", default: str | None) -> str:
    """Asks until the answer is valid."""

    def check_answer(answer: str) -> str:
        try:
            return question.validate(answer)
        except RequestError as error:
            raise typer.BadParameter(str(error)) from None

    return str(typer.prompt(question.text, default=default, value_proc=check_answer, err=True))
