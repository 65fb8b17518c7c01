"""A file that asks for machines, by its name and its beginning: JSON, YAML, Python, notebooks, scripts, Terraform."""

from pathlib import Path

from vgp.documents import document
from vgp.documents.document import Document
from vgp.documents.reading import read
from vgp.sources import notebook, python_code, shell, terraform
from vgp.sources.hcl import SUFFIXES as TERRAFORM

#: Suffixes of the files of a folder that are looked at.
SPECS, PROGRAMS = (".json", ".yaml", ".yml"), (".py", ".ipynb", ".sh", ".bash", ".tf")


def load(path: Path) -> list[Document]:
    """The documents of a file; of a program there may be none. Raises Unreadable."""
    return parse(str(path), read(path, instead="; give - and the text on standard input"), path.parent)


def parse(name: str, text: str, folder: Path | None = None) -> list[Document]:
    """Likewise of a text; `folder`: where the files lie that it names."""
    if is_terraform(name):
        return terraform.documents(name, text, folder)
    suffix = Path(name).suffix.lower()
    started_by = text.split("\n", 1)[0] if text.startswith("#!") and suffix not in SPECS else ""
    if suffix == ".py" or "python" in started_by:
        return python_code.documents(name, text)
    if suffix in (".sh", ".bash") or "sh" in started_by:
        return shell.documents(name, text, folder)
    if suffix == ".ipynb" or suffix == ".json" and notebook.is_notebook(text[:100_000]):
        return notebook.documents(name, text, folder)
    if suffix not in SPECS and text.lstrip().removeprefix("$ ").startswith("gcloud "):
        return shell.documents(name, text.lstrip().removeprefix("$ "), folder)
    return document.parse(name, text)


def is_program(name: str) -> bool:
    return Path(name).suffix.lower() in PROGRAMS or is_terraform(name)


def is_terraform(name: str) -> bool:
    return name.lower().endswith(TERRAFORM)


def may_ask(name: str, text: str) -> bool:
    """Whether a program, notebook or script has a word by which a request for machines is recognised."""
    if is_terraform(name):
        return terraform.may_ask(text)
    suffix = Path(name).suffix.lower()
    return suffix != ".py" and "gcloud" in text or suffix in (".py", ".ipynb") and python_code.may_ask(text)
