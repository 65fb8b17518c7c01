"""What `pipelines convert` is given: a file, standard input, or a whole gcloud command line."""

from pathlib import Path

from vgp.documents.document import Document, parse
from vgp.documents.field_path import dotted
from vgp.documents.reading import read, standard_input
from vgp.errors import RequestError
from vgp.sources import gcloud_line
from vgp.sources.account import Note


def document(source: str) -> tuple[Document, list[Note]]:
    """The first document of a path, of standard input (`-`) or of a command; and what of the source is not in it.

    Raises:
        RequestError: it cannot be read, or says nothing.
    """
    text, name = source, "<command>"
    if not _is_command(text):
        is_stdin = source.strip() == "-"
        text, name = (standard_input(), "<stdin>") if is_stdin else (read(Path(source)), source)
    if _is_command(text):
        data, lost = gcloud_line.data(text.strip().removeprefix("$ "))
        return Document(name, data, ""), lost
    documents = parse(name, text)
    if not documents:
        raise RequestError(f"{source}: the file is empty.")
    fault = documents[0].fault
    if fault:
        raise fault if isinstance(fault, RequestError) else RequestError(f"{source}: {fault}")
    return documents[0], _lost(documents)


def _is_command(text: str) -> bool:
    return text.strip().removeprefix("$ ").startswith("gcloud ")


def _lost(documents: list[Document]) -> list[Note]:
    lost = [Note(dotted(path), "given twice: the last one counts", True) for path in documents[0].repeated]
    if len(documents) > 1:
        text = f"{len(documents) - 1} more in the file: only the first is converted"
        lost.append(Note("documents", text, True))
    return lost
