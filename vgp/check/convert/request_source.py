"""Reads the request to convert: a gcloud line, a file of data, or a program, notebook, script or Terraform file.

Values that only a program or a shell knows become variables such as $IMAGE_URI, with a note on each.
"""

import re
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from vgp.base.documents.bounded_text import FieldPath, format_path, read, standard_input
from vgp.base.documents.document import Document
from vgp.base.documents.json_text import with_texts
from vgp.base.documents.node import Computed
from vgp.base.errors import RequestError
from vgp.check import legacy, nested_requests
from vgp.check.convert import conversion
from vgp.check.document_kinds import is_program, parse
from vgp.check.sources import gcloud_line
from vgp.check.sources.command_line import Note
from vgp.check.sources.shell_commands import commands_in_lines
from vgp.check.sources.shell_script import mark_variables
from vgp.check.sources.shell_variables import Lines

#: Text before a command in a page, a notebook or a terminal: a prompt, variables, sudo.
_BEFORE = re.compile(r"\s*(?:[$!%]\s*|sudo\s+|[A-Za-z_]\w*=\S*\s+)*(?=gcloud\s)")
_SET = re.compile(r"(?:^|\s)([A-Za-z_]\w*)=")
#: Fields that the command around a job names, so that the job itself can leave them open.
_OPEN = ("displayName", "location", "region", "project", "parent", "jobId")
#: Fields without which nothing is left to convert.
_NEEDED = ("jobSpec", "trialJobSpec", "trainingTaskInputs", "workerPoolSpecs", "machineSpec", "trainingInput")
#: The reason and the next step, after the name of the file.
NOTHING = (
    "there is nothing to convert: no trainingInput, no custom or tuning job, no worker pools, no gcloud line. "
    "Put the job, or the quoted gcloud line, into a file of its own."
)
_AS_MEANT = "The conversion treats it as corrected."
_CAMEL = re.compile(r"(?<!^)(?=[A-Z])")


def source_document(source: str) -> tuple[Document, list[Note]]:
    """Returns the first job of a path, of standard input (`-`) or of a command, and notes on the rest of the source.

    Raises:
        RequestError: it is unreadable, or has no job.
    """
    text, name = source, "<command>"
    if _BEFORE.match(text) is None:
        is_stdin = source.strip() == "-"
        text, name = (standard_input(), "<stdin>") if is_stdin else (read(Path(source)), source)
    before = None if is_program(name) else _BEFORE.match(text)
    if before is not None:
        document, notes = _read_command(name, text[before.end() :].strip())
        why = "it applies to that command only and is in no file"
        notes[:0] = [Note(variable, why, True) for variable in _SET.findall(before.group())]
    else:
        documents = parse(name, text, None if name == "<stdin>" else Path(name).parent)
        document, inner_notes = _choose(name, documents)
        notes = _note_the_rest(document, documents) + inner_notes
    if isinstance(document.data, dict) and document.data.get("jobSpec") == {}:
        raise RequestError("the command requests no machine. Add --worker-pool-spec, or --config with a file.")
    return replace(document, data=_fill(document.data, (), notes, name)), notes


def _read_command(name: str, line: str) -> tuple[Document, list[Note]]:
    """Returns the request of a gcloud line; flags below a comment that cuts the line are part of it."""
    command = next(commands_in_lines(Lines(line.split("\n")), lambda _: {}), None)
    broken = command.broken if command else []
    data, notes = gcloud_line.data(command.text if command and broken else line)
    notes += [Note(f"line {number}", f"{text} {_AS_MEANT}") for number, text, _ in broken]
    return Document(name, with_texts(data, mark_variables), ""), notes


def _choose(name: str, documents: list[Document]) -> tuple[Document, list[Note]]:
    """Returns the first document that can be converted, or the first job inside one, with a note on its place.

    Raises:
        RequestError: there is none.
    """
    for document in documents:
        if document.fault is None and _is_job(document.data):
            return document, []
    if not documents and not is_program(name):
        raise RequestError(f"{name}: the file is empty.")
    for document in documents:
        if isinstance(document.fault, RequestError):
            raise document.fault
        if document.fault is not None:
            raise RequestError(f"{name}: {document.fault} Put the job to convert into a file of its own.")
    return _find_inner_job(name, documents)


def _is_job(data: object) -> bool:
    return legacy.recognises(data) or conversion.recognises(data)


def _find_inner_job(name: str, documents: list[Document]) -> tuple[Document, list[Note]]:
    """Returns the first job deep inside a document of another kind, such as Helm values, with a note on its place."""
    requests = [
        (document, path, value)
        for document in documents
        for path, value in nested_requests.find_requests(document.data)
    ]
    for document, path, value in requests:
        if _is_job(value):
            more = f"; the file has {len(requests) - 1} more, which stay out" if len(requests) > 1 else ""
            return replace(document, data=value), [Note(format_path(path), f"only this part is converted{more}")]
    if requests:
        place = format_path(requests[0][1])
        raise RequestError(
            f"{name}: the request{f' at {place}' if place else ''} has a machine, but no worker pool of a training "
            "job. Write workerPoolSpecs with its machineSpec and your containerSpec into a file, and convert that."
        )
    raise RequestError(f"{name}: {NOTHING}")


def _note_the_rest(document: Document, documents: list[Document]) -> list[Note]:
    notes = [Note(format_path(path), "given twice; the last value is used", True) for path in document.repeated]
    if len(documents) > 1:
        text = f"{len(documents) - 1} more in the file: only the one in line {document.line(())} is converted"
        notes.append(Note("documents", text, True))
    notes += [Note(field, why, True) for field, why in document.dropped]
    notes += [Note(format_path(path) or "source", f"{text} {_AS_MEANT}") for path, text, _ in document.broken]
    notes += [Note(format_path(path), text) for path, text in document.notes]
    return notes + [Note("flags", text, True) for text in document.unread]


def _fill(value: Any, path: FieldPath, notes: list[Note], name: str) -> Any:
    """Returns the value with a variable for each unknown part, or without that part if a job can leave it open."""
    if value == {} and path[-1:] == ("containerSpec",) and is_program(name):
        value = {"imageUri": Computed("kfp inserts the image of the component")}
    if isinstance(value, dict):
        filled = {key: _fill(item, (*path, key), notes, name) for key, item in value.items()}
        return {key: item for key, item in filled.items() if not isinstance(item, Computed)}
    if isinstance(value, list):
        return [_fill(item, (*path, index), notes, name) for index, item in enumerate(value)]
    if not isinstance(value, Computed):
        return value
    field = conversion.camel_case(next((str(part) for part in reversed(path) if isinstance(part, str)), "value"))
    if field in _NEEDED:
        raise RequestError(
            f"{name}: {format_path(path)} is known only at run time: {value}. Write its value into the file."
        )
    if field in _OPEN:
        notes.append(Note(format_path(path), f"known only at run time: {value}", True))
        return value
    variable = value.source or _name_variable(field, {note.became.partition(":")[0] for note in notes})
    notes.append(
        Note(format_path(path), f"{variable}: known only at run time: {value}; write its value into the result")
    )
    return variable


def _name_variable(field: str, known: set[str]) -> str:
    """Returns `$IMAGE_URI` for imageUri; a second unknown value of the field gets `$IMAGE_URI_2`."""
    name = f"${_CAMEL.sub('_', field).upper()}"
    return next(each for number in count(1) if (each := name if number == 1 else f"{name}_{number}") not in known)
