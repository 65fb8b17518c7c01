"""init, config: the settings file, made and shown."""

import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vgp.base import whole_files
from vgp.base.documents.toml_text import FILE_NAME
from vgp.base.errors import RequestError
from vgp.cli.options import Environment, Json, SettingsFile, console, load_settings, print_json

if TYPE_CHECKING:
    from rich.table import Table

    from vgp.settings.first_file import Answers, Question

app = typer.Typer()


@app.command(epilog="Example: vgp config --env prod, or in a script: vgp config bucket")
def config(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="One setting, as bare text; of a table, what is in it.")
    ] = None,
    environment: Environment = None,
    settings: SettingsFile = None,
    as_json: Json = False,
) -> None:
    """Show the settings in effect, and where each came from: file and line, variable, or default."""
    from vgp.settings import settings_loading

    loaded = load_settings(settings, environment)
    if key is not None:
        rows = settings_loading.below(loaded, key)
        single = rows[0]["key"] == key
        if as_json:
            print_json(rows[0] if single else rows)
        elif single:
            print(settings_loading.shown(rows[0]["value"]))
        else:
            console().print(_settings_table(rows))
        return
    overview = settings_loading.overview(loaded)
    if as_json:
        print_json(overview)
        return
    console().print(_settings_table(overview["values"]))
    declared = ", ".join(overview["environments"]) or "none"
    if loaded.registry_root and not loaded.registry:
        console().print(f"\nregistry of models: {loaded.registry_root}", highlight=False, markup=False, soft_wrap=True)
    for line in loaded.registry_warnings():
        console().print(f"\n{line}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    console().print(f"\nenvironments: {declared}; file: {overview['file'] or 'none'}", highlight=False, markup=False)


def _settings_table(rows: list[dict[str, object]]) -> "Table":
    from rich.text import Text

    from vgp.base.text.figures import table
    from vgp.base.text.printable import printable
    from vgp.settings.settings_loading import shown

    cells = [
        [
            Text(printable(str(cell)), "dim" if row["source"] == "default" else "")
            for cell in (row["key"], "-" if row["value"] is None else shown(row["value"]), row["place"])
        ]
        for row in rows
    ]
    return table(("setting", "value", "from"), cells)


@app.command(epilog="Example: vgp init --project my-project --region europe-west4 --yes")
def init(
    project: Annotated[str | None, typer.Option(help="Id of the Google Cloud project.", show_default=False)] = None,
    prod_project: Annotated[
        str | None, typer.Option(help="Project of the environment prod; default: the same.", show_default=False)
    ] = None,
    region: Annotated[str | None, typer.Option(help="Region of the jobs; default: us-central1.")] = None,
    bucket: Annotated[str | None, typer.Option(help="gs://BUCKET of the runs.", show_default=False)] = None,
    image: Annotated[str | None, typer.Option(help="Image of the steps.", show_default=False)] = None,
    template_repository: Annotated[
        str | None, typer.Option(help="https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY.", show_default=False)
    ] = None,
    service_account: Annotated[
        str | None, typer.Option(help="E-mail of the account that the steps run as.", show_default=False)
    ] = None,
    settings: SettingsFile = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take the defaults.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file that is there; its steps stay.")] = False,
    as_json: Json = False,
) -> None:
    """Write a first pipelines.toml, with environments dev and prod: by asking, or from flags."""
    from vgp.settings import first_file

    path = settings or Path(FILE_NAME)
    if path.exists() and not force and not first_file.is_bare(path):
        raise RequestError(f"{path} is there already. Change it, or replace it with --force: its steps stay.")
    flags = {
        "project": project, "prod_project": prod_project, "region": region, "bucket": bucket, "image": image,
        "template_repository": template_repository, "service_account": service_account,
    }  # fmt: skip
    answers = _answers(first_file.QUESTIONS, flags, yes)
    shipped = Path(str(resources.files("vgp.workflow.project"))) / "template" / FILE_NAME
    whole_files.write(path, first_file.text(answers, first_file.steps_of([path, shipped])))
    if as_json:
        print_json({"path": str(path), "answers": answers})
    else:
        print(_NEXT.format(path=path))


_NEXT = """\
Wrote {path}, with the environments dev (unless --env says otherwise) and prod. Next:
  vgp config               what is in effect, and where it came from
  vgp compile              every pipeline to JSON, every machine checked
  vgp preflight training   whether the project has what a run needs
  vgp submit training      a run on Vertex AI"""


def _answers(questions: "tuple[Question, ...]", flags: dict[str, str | None], yes: bool) -> "Answers":
    """An answer to every question: from its flag, a person, or its default."""
    answers = {one.key: one.checked(flag) for one in questions if (flag := flags[one.key]) is not None}
    _refuse_silence(questions, answers, yes)
    for question in questions:
        if question.key not in answers:
            default = question.default(answers)
            answers[question.key] = question.checked(default or "") if yes else _ask(question, default)
    return answers


def _refuse_silence(questions: "tuple[Question, ...]", answers: "Answers", yes: bool) -> None:
    """Raises RequestError: something must be asked, and there is nobody to ask."""
    open_ = [question for question in questions if question.key not in answers]
    if yes:
        unknown = [one.flag for one in open_ if one.key == "project" and one.default(answers) is None]
        if unknown:
            raise RequestError("no project is known: give --project, or set GOOGLE_CLOUD_PROJECT.")
    elif open_ and not sys.stdin.isatty():
        missing = ", ".join(question.flag for question in open_)
        raise RequestError(f"there is no terminal to ask on. Missing: {missing}. Or take the defaults: --yes.")


def _ask(question: "Question", default: str | None) -> str:
    """Asks until the answer is right."""

    def checked(answer: str) -> str:
        try:
            return question.checked(answer)
        except RequestError as error:
            raise typer.BadParameter(str(error)) from None

    return str(typer.prompt(question.text, default=default, value_proc=checked, err=True))
