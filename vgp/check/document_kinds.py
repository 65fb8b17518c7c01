"""The kind of a file by its name and its beginning, the kind of a document by its content, and the judge of each kind.

Files are JSON, YAML, Python, notebooks, scripts, Makefiles, Dockerfiles and Terraform.
"""

import re
from pathlib import Path

from vgp.base.documents import document
from vgp.base.documents.bounded_text import Unreadable, read
from vgp.base.documents.document import Document
from vgp.base.documents.node import Node, spellings
from vgp.check import api_object, legacy, nested_requests, pipeline, plain_step
from vgp.check.judgement import Judgement
from vgp.check.sources import (
    embedded_commands,
    hcl_blocks,
    notebook,
    python_code,
    shell_commands,
    shell_script,
    terraform,
)

#: Suffixes of the files of a folder that are checked.
SPECS = (".json", ".yaml", ".yml")
_WINDOWS = (".ps1", ".bat", ".cmd")
_SHELLS = (".sh", ".bash", ".zsh", ".mk", *_WINDOWS)
#: Read if they are named; the pages of a folder may show wrong requests on purpose.
_PAGES = (".md", ".markdown")
PROGRAMS = (".py", ".ipynb", ".tf", *_SHELLS)
SUFFIXES = SPECS + PROGRAMS
#: Files that are checked by their name: Makefile, Dockerfile.train.
_NAMED = re.compile(r"(?:GNUm|m|M)akefile|Dockerfile(?:\..+)?|.+\.Dockerfile")


def is_checked(name: str) -> bool:
    """Whether a folder's file of this name is checked."""
    path = Path(name)
    return path.suffix.lower() in SUFFIXES or _NAMED.fullmatch(path.name) is not None


def load(path: Path) -> list[Document]:
    """Reads the documents of a file; a program may have none. Raises Unreadable."""
    return parse(str(path), read(path, instead="; or pass - and give the text on standard input"), path.parent)


def parse(name: str, text: str, folder: Path | None = None) -> list[Document]:
    """Reads the documents of a text; `folder`: the folder of the files that the text names."""
    form = _detect_form(name, text)
    if form == "terraform":
        return terraform.documents(name, text, folder)
    if form == "python":
        return python_code.documents(name, text)
    if form == "shell":
        return shell_script.documents(name, _as_shell(name, text), folder)
    return notebook.documents(name, text, folder) if form == "notebook" else _parse_spec(name, text, folder)


def _parse_spec(name: str, text: str, folder: Path | None) -> list[Document]:
    """Returns the documents of JSON or YAML; gcloud commands in a document of another kind replace it."""
    if name.endswith(".toml"):
        raise Unreadable(name, "TOML holds no request; `vgp compile` checks the machines of pipelines.toml")
    documents: list[Document] = []
    for each in document.parse(name, text):
        commands = [] if recognises(each) else embedded_commands.documents(each, folder)
        documents += commands or [each]
    return document.number_documents(documents)


def _as_shell(name: str, text: str) -> str:
    """Returns the text of a script, a Makefile, a Dockerfile or a page as bash reads it."""
    if name.endswith(".mk") or name.endswith("akefile"):
        return embedded_commands.read_makefile(text)
    if Path(name).suffix.lower() in _WINDOWS:
        return embedded_commands.read_windows_script(text)
    if Path(name).suffix.lower() in _PAGES:
        return embedded_commands.read_markdown(text)
    own = text.lstrip()
    return own.removeprefix("$ ") if own.startswith("$ ") else text


def _detect_form(name: str, text: str) -> str:
    """Returns terraform, python, shell, notebook or spec, from the name of the file and its beginning."""
    if is_terraform(name):
        return "terraform"
    suffix = Path(name).suffix.lower()
    started_by = text.split("\n", 1)[0] if text.startswith("#!") and suffix not in SPECS else ""
    if suffix == ".py" or "python" in started_by:
        return "python"
    if suffix in (*_SHELLS, *_PAGES) or "sh" in started_by or _NAMED.fullmatch(Path(name).name):
        return "shell"
    if suffix == ".ipynb" or suffix == ".json" and notebook.is_notebook(text[:100_000]):
        return "notebook"
    is_command = suffix not in SPECS and text.lstrip().removeprefix("$ ").startswith("gcloud ")
    return "shell" if is_command else "spec"


def is_program(name: str) -> bool:
    suffix = Path(name).suffix.lower()
    return is_terraform(name) or suffix in _PAGES or is_checked(name) and suffix not in SPECS


def is_terraform(name: str) -> bool:
    return name.lower().endswith(hcl_blocks.SUFFIXES)


#: Each JSON or YAML request contains one of these words.
_WORDS = (
    "deploymentSpec", "trainingInput", "scaleTier", "masterType",
    *sorted({spelled for name in (*api_object.KIND_FIELDS, "acceleratorType") for spelled in spellings(name)}),
)  # fmt: skip
_KINDS = "a compiled pipeline, a custom job, worker pools, a tuning, prediction or deployment request, or trainingInput"


def recognises(document: Document) -> bool:
    """Whether the document can be judged, or has the words of a request but is unreadable."""
    data = document.data
    if document.fault is not None:
        return document.asks
    if document.places is not None:
        return True  # a program without requests gives no document
    kinds = (pipeline.recognises, legacy.recognises, api_object.find_kind_field, api_object.is_pool_list)
    return any(kind(data) for kind in (*kinds, nested_requests.find_requests))


def may_ask(file: str, text: str) -> bool:
    """Whether a text contains a word that identifies requests."""
    form = _detect_form(file, text)
    if form == "spec":
        return any(word in text for word in _WORDS) or embedded_commands.may_ask(text)
    if form == "terraform":
        return terraform.may_ask(text)
    return form != "python" and shell_commands.may_ask(text) or form != "shell" and python_code.may_ask(text)


def judge(judgement: Judgement) -> None:
    """Judges the document by its kind.

    Raises:
        Unreadable: it is of no kind that can be judged.
    """
    document = judgement.document
    data, node = document.data, Node(document.data)
    if isinstance(data, dict) and set(data) == {"platforms"}:
        return  # kfp's second document: settings of the Kubernetes backend
    if pipeline.recognises(data):
        pipeline.judge(judgement)
    elif legacy.recognises(data):
        legacy.judge(judgement)
    elif api_object.find_kind_field(data):
        api_object.judge(judgement, "", node)
    elif isinstance(data, dict) and set(data) == {"container"}:  # a plain step of a program
        plain_step.judge(judgement, document.default_step, node.get("container"))
    elif api_object.is_pool_list(data):
        api_object.judge_pools(judgement, "", node)
    elif requests := nested_requests.find_requests(data):
        nested_requests.judge(judgement, requests)
    else:
        raise Unreadable(document.file, _explain_unknown_kind(data))


def _explain_unknown_kind(data: object) -> str:
    if isinstance(data, dict) and str(data.get("apiVersion", "")).startswith("argoproj.io"):
        return "an Argo workflow of KFP 1; Vertex AI runs pipelines compiled by KFP 2"
    content = "it is plain text" if isinstance(data, str) else f"it is {type(data).__name__}"
    if isinstance(data, dict):
        content = f"its keys are {', '.join(str(key)[:40] for key in list(data)[:8]) or 'none'}"
    return f"not a known request: {content}. Known are {_KINDS}"
