"""A file that asks for machines, by its name and its beginning: JSON, YAML, Python, notebooks, scripts, Terraform."""

from pathlib import Path

from vgp.base.documents import document
from vgp.base.documents.bounded_text import read
from vgp.base.documents.document import Document
from vgp.check.sources import notebook, python_code, shell_script, terraform
from vgp.check.sources.hcl import SUFFIXES as TERRAFORM

#: Suffixes of the files of a folder that are looked at.
SPECS, PROGRAMS = (".json", ".yaml", ".yml"), (".py", ".ipynb", ".sh", ".bash", ".tf")


def load(path: Path) -> list[Document]:
    """The documents of a file; of a program there may be none. Raises Unreadable."""
    return parse(str(path), read(path, instead="; give - and the text on standard input"), path.parent)


def parse(name: str, text: str, folder: Path | None = None) -> list[Document]:
    """Likewise of a text; `folder`: where the files lie that it names."""
    form = _form(name, text)
    if form == "terraform":
        return terraform.documents(name, text, folder)
    if form == "python":
        return python_code.documents(name, text)
    if form == "shell":
        own = text.lstrip()
        return shell_script.documents(name, own.removeprefix("$ ") if own.startswith("$ ") else text, folder)
    return notebook.documents(name, text, folder) if form == "notebook" else document.parse(name, text)


def _form(name: str, text: str) -> str:
    """terraform, python, shell, notebook or spec, by the name of the file and how it begins."""
    if is_terraform(name):
        return "terraform"
    suffix = Path(name).suffix.lower()
    started_by = text.split("\n", 1)[0] if text.startswith("#!") and suffix not in SPECS else ""
    if suffix == ".py" or "python" in started_by:
        return "python"
    if suffix in (".sh", ".bash") or "sh" in started_by:
        return "shell"
    if suffix == ".ipynb" or suffix == ".json" and notebook.is_notebook(text[:100_000]):
        return "notebook"
    is_command = suffix not in SPECS and text.lstrip().removeprefix("$ ").startswith("gcloud ")
    return "shell" if is_command else "spec"


def is_program(name: str) -> bool:
    return Path(name).suffix.lower() in PROGRAMS or is_terraform(name)


def is_terraform(name: str) -> bool:
    return name.lower().endswith(TERRAFORM)


def may_ask(name: str, text: str) -> bool | None:
    """Whether a program, notebook or script has a word of a request for machines; None: it is none of these."""
    form = _form(name, text)
    if form == "terraform":
        return terraform.may_ask(text)
    if form == "spec":
        return None
    return form != "python" and shell_script.may_ask(text) or form != "shell" and python_code.may_ask(text)
