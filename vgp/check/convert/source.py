"""What `vgp convert` is given: a file, standard input, or a whole gcloud command line."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vgp.base.documents.document import Document, parse
from vgp.base.documents.field_path import dotted
from vgp.base.documents.reading import read, standard_input
from vgp.base.errors import RequestError
from vgp.base.text.figures import listed
from vgp.check.sources import gcloud_line
from vgp.check.sources.account import Note

_VARIABLE = re.compile(r"\$(?:\{\w+\}|[A-Za-z_]\w*)")
#: What stands before a command in a page, a notebook or a terminal: a prompt, variables of its own, sudo.
_BEFORE = re.compile(r"\s*(?:[$!%]\s*|sudo\s+|[A-Za-z_]\w*=\S*\s+)*(?=gcloud\s)")
_SET = re.compile(r"(?:^|\s)([A-Za-z_]\w*)=")
#: What `check` reads and `convert` does not.
_PROGRAMS = (".py", ".ipynb", ".sh", ".bash", ".tf")


def document(source: str) -> tuple[Document, list[Note]]:
    """The first document of a path, of standard input (`-`) or of a command; and what of the source is not in it.

    Raises:
        RequestError: it cannot be read, or says nothing.
    """
    text, name = source, "<command>"
    if _BEFORE.match(text) is None:
        is_stdin = source.strip() == "-"
        text, name = (standard_input(), "<stdin>") if is_stdin else (read(Path(source)), source)
    before = _BEFORE.match(text)
    if before is not None:
        data, lost = gcloud_line.data(text[before.end() :].strip())
        if data.get("jobSpec") == {}:
            raise RequestError(
                "the command asks for no machine: --worker-pool-spec gives one, or --config a file of it."
            )
        _refuse_variables(data)
        why = "set for that command alone: it is in no file"
        return Document(name, data, ""), [Note(each, why, True) for each in _SET.findall(before.group())] + lost
    if name.endswith(_PROGRAMS):
        raise RequestError(
            f"{source}: convert takes a gcloud line, JSON or YAML, and reads no program. Give the line itself, convert "
            "'gcloud ai custom-jobs create ...'; vgp check judges the program as it is."
        )
    documents = parse(name, text)
    if not documents:
        raise RequestError(f"{source}: the file is empty.")
    fault = documents[0].fault
    if fault:
        raise fault if isinstance(fault, RequestError) else RequestError(f"{source}: {fault}")
    return documents[0], _lost(documents)


def _refuse_variables(data: Any) -> None:
    """Raises RequestError for variables of the shell where the job needs a value."""
    names = list(dict.fromkeys(_variables(data)))
    if names:
        raise RequestError(
            f"What {listed(names, 'and')} stands for only your shell knows. Write the value, or let the shell fill it "
            'in: give the line in double quotes, "gcloud ...".'
        )


def _variables(value: Any) -> Iterator[str]:
    """Those that a container's own command does not need itself."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from () if key in ("args", "command", "env") else _variables(item)
    elif isinstance(value, list):
        for item in value:
            yield from _variables(item)
    elif isinstance(value, str):
        yield from _VARIABLE.findall(value)


def _lost(documents: list[Document]) -> list[Note]:
    lost = [Note(dotted(path), "given twice: the last one counts", True) for path in documents[0].repeated]
    if len(documents) > 1:
        text = f"{len(documents) - 1} more in the file: only the first is converted"
        lost.append(Note("documents", text, True))
    return lost
