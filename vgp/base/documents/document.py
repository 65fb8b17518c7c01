"""The documents of a file, one or several in JSON or YAML, loaded safely, and the line of each key."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from vgp.base.documents import json_text, yaml_text
from vgp.base.documents.bounded_text import Exhausted, FieldPath, Unreadable, read
from vgp.base.documents.json_text import Repeating


@dataclass(frozen=True)
class Place:
    """A line of the file, from 1; in a notebook also the cell and its line, such as "cell 3, line 7"."""

    line: int
    cell: str = ""

    def __str__(self) -> str:
        return self.cell or f"line {self.line}"


#: Maps a line of a text, from 1, to its place in the file; `Place` itself if the text is the whole file.
At = Callable[[int], Place]


MAX_DOCUMENTS, MAX_REPEATED = 2_000, 20
#: Suffixes of files with one document per line.
_JSON_LINES = (".jsonl", ".ndjson")
LIMITS = yaml_text.Limits(values=1_000_000, characters=100_000_000, levels=200)


@dataclass(frozen=True)
class Document:
    """One JSON or YAML document: its data and its text."""

    file: str
    data: Any
    text: str
    is_yaml: bool = False
    #: Number of the document in its file, from 0; None for an only document.
    index: int | None = None
    #: Number of lines of the file above the text.
    above: int = 0
    #: Why there is no data: the text is unreadable or too large.
    fault: Unreadable | Exhausted | None = None
    #: Paths of keys that occur more than once.
    repeated: tuple[FieldPath, ...] = ()
    #: Place of each part of a text that is neither JSON nor YAML; None for JSON and YAML.
    places: Mapping[FieldPath, Place] | None = None
    #: Errors that end the request before it asks for a machine: path, problem and fix.
    broken: tuple[tuple[FieldPath, str, str], ...] = ()
    #: Unknown parts of the request as a whole: path and sentence.
    notes: tuple[tuple[FieldPath, str], ...] = ()
    #: Unreadable parts of the request, a sentence each; the rest is checked.
    unread: tuple[str, ...] = ()
    #: Flags without a counterpart in the data: name and reason.
    dropped: tuple[tuple[str, str], ...] = ()
    #: How to fix the fault.
    fix: str = ""
    #: Whether the text of a fault looks like a job request.
    asks: bool = True

    @property
    def default_step(self) -> str:
        """Returns the name for a job without one."""
        return "job" if self.index is None else f"job[{self.index}]"

    def line(self, path: FieldPath) -> int:
        """Returns the line (from 1) of the key at `path`, or of its nearest parent in the file."""
        return self.lines([path])[path]

    def lines(self, paths: Iterable[FieldPath]) -> dict[FieldPath, int]:
        """Returns the lines of several paths, reading the text once."""
        if self.places is not None:
            return {path: _find_nearest_place(self.places, path).line for path in paths}
        if self.fault is not None:
            return dict.fromkeys(paths, self.above + 1)
        here = yaml_text.lines(self.text, paths) if self.is_yaml else json_text.lines(self.text, set(paths))
        return {path: self.above + line for path, line in here.items()}

    def cell(self, path: FieldPath) -> str:
        """Returns the cell and its line in a notebook, and "" in other files."""
        return _find_nearest_place(self.places, path).cell if self.places is not None else ""


def _find_nearest_place(places: Mapping[FieldPath, Place], path: FieldPath) -> Place:
    """Returns the place of `path`, or of its nearest parent that has one."""
    return next((places[path[:size]] for size in range(len(path), -1, -1) if path[:size] in places), Place(1))


def load(path: Path) -> list[Document]:
    """Returns the documents of a file; raises Unreadable."""
    return parse(str(path), read(path, instead="; give - and the text on standard input"))


#: An unquoted {{ x }} of a template, as in `machineType: {{ x }}`.
_BARE = re.compile(r"(?m)(?<=[:\-,\[] )[ \t]*\{\{[^{}\n\"'$]*\}\}(?=[ \t]*(?:[,\]}#]|$))")


def parse(file: str, text: str) -> list[Document]:
    """Returns the non-empty documents in `text`; an unreadable one has a `fault`.

    If a document is unreadable, unquoted templates are read as if they were quoted.
    """
    documents = _parse(file, text)
    if any(isinstance(document.fault, Unreadable) for document in documents) and _BARE.search(text):
        quoted = _parse(file, _BARE.sub(lambda match: f'"{match.group().strip()}"', text))
        return documents if any(document.fault for document in quoted) else quoted
    return documents


def _parse(file: str, text: str) -> list[Document]:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if file.lower().endswith(_JSON_LINES):
        return number_documents(list(_parse_json_lines(file, text)))
    document = _parse_json(file, text) if text.lstrip()[:1] in ("{", "[") else None
    if document is not None:
        return [document]
    documents: list[Document] = []
    for part, above in _split_documents(text):
        documents += _parse_yaml(file, part, above)
        if len(documents) > MAX_DOCUMENTS:
            documents[MAX_DOCUMENTS:] = [Document(file, None, "", above=above, fault=_too_many_error())]
            break
    return number_documents(documents)


def _parse_json_lines(file: str, text: str) -> Iterator[Document]:
    """Yields a document for each non-blank line of JSON Lines."""
    lines = ((above, line) for above, line in enumerate(text.split("\n")) if line.strip())
    for number, (above, line) in enumerate(lines):
        if number == MAX_DOCUMENTS:
            yield Document(file, None, "", above=above, fault=_too_many_error())
            return
        document = _parse_json(file, line)
        if document is None:
            fault = Unreadable(file, f"line {above + 1} is not JSON: each line of JSON Lines must be an object")
            document = Document(file, None, "", fault=fault)
        yield replace(document, above=above)


def number_documents(documents: list[Document]) -> list[Document]:
    """Returns the documents of one file, numbered if there are several."""
    if len(documents) < 2:
        return documents
    return [replace(document, index=index) for index, document in enumerate(documents)]


def _too_many_error() -> Exhausted:
    return Exhausted(f"The file has more than {MAX_DOCUMENTS:,} documents.")


def _parse_json(file: str, text: str) -> Document | None:
    """Returns the document, or None for text that is not JSON in a file without that suffix, which may be YAML."""
    try:
        if json_text.values(text, LIMITS.values) > LIMITS.values:
            raise Exhausted(f"The document has more than {LIMITS.values:,} values.")
        data, repeating = json_text.loads(text)
        if json_text.levels(data) > LIMITS.levels:
            raise RecursionError
    except Exhausted as error:
        return Document(file, None, "", fault=error)
    except RecursionError:
        too_deep = Exhausted(f"The document is nested more than {LIMITS.levels} levels deep.")
        return Document(file, None, "", fault=too_deep)
    except ValueError as error:
        fault, above = Unreadable(file, f"invalid JSON: {error}"), getattr(error, "lineno", 1) - 1
        return Document(file, None, "", above=above, fault=fault) if file.lower().endswith(".json") else None
    return Document(file, data, text, repeated=_list_repeated_paths(data, repeating))


_MARKER = re.compile(r"^(?:---|\.\.\.)(?=\s|$)", re.MULTILINE)
_PROLOGUE = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?\n|%[^\n]*+\n)*+")


def _split_documents(text: str) -> Iterator[tuple[str, int]]:
    """Yields the text of each YAML document and the number of lines above it; only markers begin a line with ---."""
    start = above = 0
    for marker in _MARKER.finditer(text):
        end = marker.start() if marker.group() == "---" else marker.end()
        # Comments and directives above a first --- belong to the document below it.
        if not _PROLOGUE.fullmatch(text, start, end):
            yield text[start:end], above
            above += text.count("\n", start, end)
            start = end
    yield text[start:], above


def _parse_yaml(file: str, text: str, above: int) -> list[Document]:
    documents = []
    try:
        for data, repeating in yaml_text.documents(text, LIMITS):
            if data is not None:
                repeated = _list_repeated_paths(data, repeating)
                documents.append(Document(file, data, text, is_yaml=True, above=above, repeated=repeated))
    except yaml_text.TooMuch as error:
        documents.append(Document(file, None, "", above=above, fault=Exhausted(str(error))))
    except yaml.YAMLError as error:
        fault = Unreadable(file, f"invalid YAML: {_explain_yaml_error(error, above)}")
        mark = getattr(error, "problem_mark", None)
        documents.append(Document(file, None, "", above=above + (mark.line if mark else 0), fault=fault))
    return documents


def _explain_yaml_error(error: yaml.YAMLError, above: int) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return " ".join(str(error).split())[:300]
    text = " ".join(part for part in (error.context, error.problem) if part)
    return f"{text[:300]} (line {above + mark.line + 1}, column {mark.column + 1})"


def _list_repeated_paths(data: object, repeating: Repeating) -> tuple[FieldPath, ...]:
    """Returns the paths of the first MAX_REPEATED keys that their mappings repeat."""
    keys: dict[int, list[Any]] = {}
    for mapping, key in repeating:
        keys.setdefault(id(mapping), []).append(key)
    paths: list[FieldPath] = []
    waiting: list[tuple[FieldPath, object]] = [((), data)] if keys else []
    while waiting and keys and len(paths) < MAX_REPEATED:
        path, value = waiting.pop()
        paths += [(*path, key) for key in keys.pop(id(value), ())]
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        waiting += [((*path, key), child) for key, child in children]
    return tuple(paths[:MAX_REPEATED])
