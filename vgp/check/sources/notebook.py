"""Reads notebooks as documents of their code cells: Python, and gcloud commands after `!` or in a %%bash cell."""

import re
import warnings
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, islice, pairwise
from pathlib import Path
from typing import Any

from vgp.base.documents import json_text
from vgp.base.documents.bounded_text import Exhausted, FieldPath, Unreadable
from vgp.base.documents.document import At, Document, Place, number_documents
from vgp.check.sources import python_code, shell_commands, shell_script
from vgp.check.sources.shell_commands import LATE_BACKSLASH

#: NAME = ! command, or = %magic: the result is computed.
_ASSIGNED_OUTPUT = re.compile(r"^(\s*[\w, ]+=\s*)([!%].*)$")
#: Lines for the shell, and lines for IPython; a `% (values)` below a text is neither.
_COMMAND = re.compile(r"\s*(?:!!?(?!=)|%(?:sx|system|bash|sh)\s)")
_MAGIC = re.compile(r"\s*(?:%[A-Za-z_]|\?|[\w.]+\?{1,2}\s*$)")
#: A Python variable in a command, as written and as marked by `_split_languages`.
_PYTHON_NAME, _MARKED_NAME = re.compile(r"\$?\{([A-Za-z_]\w*)\}|\$([A-Za-z_]\w*)"), re.compile(r"\0(\$?)(\w+)\0")
#: Cells are first parsed separately as Python.
MAX_CELLS = 10_000
_SHELL_CELLS = ("%%bash", "%%sh", "%%shell", "%%script bash", "%%script sh")
#: Cells of early Datalab notebooks.
_OLD_SHELL_CELLS = ("%bash", "%sh", "%system")


def documents(file: str, text: str, folder: Path | None) -> list[Document]:
    """Returns the requests of the cells; a finding has the line in the file and the cell.

    Names that one cell sets are known in all, because cells are parsed as one program. A cell that is not Python is
    skipped, and reported if it has the words of a request. Shell variables end with their cell.
    """
    try:
        data, _ = json_text.loads(text)
    except (ValueError, RecursionError) as error:
        is_deep = isinstance(error, RecursionError)
        fault = Exhausted("The notebook is nested too deep.") if is_deep else Unreadable(file, f"no JSON: {error}")
        asks = shell_commands.may_ask(text) or python_code.is_request(text)
        return [Document(file, None, "", above=getattr(error, "lineno", 1) - 1, fault=fault, asks=asks)]
    program: list[str] = []
    script: list[str] = []
    shells = [0]
    broken: list[tuple[int, str]] = []
    origins = Origins(text)
    every = code_cells(data)
    for cell in islice(every, MAX_CELLS):
        python, commands = _split_languages(cell.lines)
        is_read = _is_python("\n".join(python))
        broken += [] if is_read else [(len(program), "\n".join(python))]
        program += python if is_read else [""] * len(python)
        shells += [len(script)] if script else []
        script += commands
        origins.add(cell, len(commands))
    whole = "\n".join(program)
    requests = python_code.documents(file, whole, origins)
    script = _fill_names(script, whole)
    if broken:  # a skipped cell may contain the missing parts
        requests = [replace(document, broken=()) for document in requests]
    faults = [
        *requests,
        *_report_broken_cells(file, broken, text, origins),
        *shell_script.documents(file, "\n".join(script), folder, origins, shells),
    ]
    faults.sort(key=lambda document: document.line(()))
    if next(every, None) is not None:
        faults.append(
            Document(file, None, "", fault=Exhausted(f"The notebook has more than {MAX_CELLS:,} code cells."))
        )
    return number_documents(faults)


def _report_broken_cells(file: str, numbered: list[tuple[int, str]], text: str, origins: At) -> Iterator[Document]:
    """Yields the fault of each cell that has the words of a request and is not Python."""
    for above, cell in numbered:
        if python_code.is_request(cell, text):
            for document in python_code.documents(file, cell, lambda line, above=above: origins(above + line)):  # type: ignore[misc]
                yield replace(document, asks=True)


def _split_languages(lines: list[str]) -> tuple[list[str], list[str]]:
    """Returns the cell's lines as Python and as shell, with blank lines in place of the other, so line numbers stay."""
    blank, first = [""] * len(lines), lines[0].strip()
    if first.startswith(_SHELL_CELLS) or first in _OLD_SHELL_CELLS:
        return blank, ["", *lines[1:]]
    if first.startswith(("%%writefile ", "%writefile ")):  # gcloud may read the file
        end, name = "END_OF_THE_CELL", first.partition(" ")[2].strip().removeprefix("-a ").strip()
        return [*blank, ""], [f"cat > {name} << {end}", *lines[1:], end]
    if first.startswith("%%") and not first.startswith(("%%time", "%%capture")):
        return blank, blank
    python, script, goes_on = [], [], False
    for line, below in pairwise(["" if first.startswith("%%") else lines[0], *lines[1:], ""]):
        taken = _ASSIGNED_OUTPUT.match(line)
        own = taken.group(2) if taken else line
        of_shell = goes_on or _COMMAND.match(own) is not None
        indent = line[: len(line) - len(line.lstrip())]
        is_magic = not taken and (of_shell or _MAGIC.match(line) is not None)
        python.append(f"{indent}pass" if is_magic else _ASSIGNED_OUTPUT.sub(r"\1_", line))
        script.append((line if goes_on else _COMMAND.sub("", own, count=1).lstrip()) if of_shell else "")
        is_cut = LATE_BACKSLASH.search(line) is not None and below.lstrip().startswith("--")
        goes_on = of_shell and (line.endswith("\\") or is_cut)
    return python, [_PYTHON_NAME.sub(lambda match: f"\0{match.group(1) or match.group()}\0", line) for line in script]


def _fill_names(script: list[str], program: str) -> list[str]:
    """Returns the commands with the values of their Python names; an unknown name becomes a shell variable."""
    text = "\n".join(script)
    value_of = python_code.read_names(program) if "\0" in text and shell_commands.may_ask(text) else None

    def fill(match: re.Match[str], line: int) -> str:
        dollar, name = match.groups()
        value = value_of(name, line) if value_of else None
        return value if value is not None else f"${name}" if dollar else f"${{{name}}}"

    return [_MARKED_NAME.sub(lambda match, at=at: fill(match, at), line) for at, line in enumerate(script, 1)]  # type: ignore[misc]


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<cell>", "exec", flags=0x400)  # only parsed, because of PyCF_ONLY_AST
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def is_notebook(text: str) -> bool:
    """Whether a JSON text is a notebook, by its beginning."""
    return '"cells"' in text and ('"nbformat"' in text or '"cell_type"' in text) and text.lstrip().startswith("{")


@dataclass(frozen=True)
class Cell:
    """A code cell. `number` counts all cells of the notebook, from 1; its source is at `path`, in `parts`."""

    number: int
    path: FieldPath
    parts: tuple[str, ...]
    #: Whether the source is a list of texts, in most files one per line.
    is_list: bool

    @cached_property
    def lines(self) -> list[str]:
        return "".join(self.parts).rstrip("\n").split("\n")

    @cached_property
    def _line_ends(self) -> list[int]:
        """Returns the number of line breaks up to the end of each part."""
        return list(accumulate(part.count("\n") for part in self.parts))

    def path_of(self, line: int) -> FieldPath:
        """Returns the path of the text in the file that contains the start of a line (from 1)."""
        part = min(bisect_right(self._line_ends, line - 1), len(self.parts) - 1)
        return (*self.path, max(part, 0)) if self.is_list else self.path


def code_cells(data: object) -> Iterator[Cell]:
    """Yields the code cells, also those of the older format with worksheets."""
    number = 0
    for path, cells in _find_lists(data):
        for index, cell in enumerate(cells):
            number += 1
            if isinstance(cell, dict) and cell.get("cell_type") == "code":
                key = "source" if "source" in cell else "input"
                yield _read_cell(number, (*path, index, key), cell.get(key))


def _find_lists(data: object) -> Iterator[tuple[FieldPath, list[Any]]]:
    if not isinstance(data, dict):
        return
    sheets = data.get("worksheets")
    named: list[tuple[FieldPath, Any]] = [((), data)]
    if isinstance(sheets, list):
        named = [(("worksheets", index), sheet) for index, sheet in enumerate(sheets)]
    for path, sheet in named:
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        if isinstance(cells, list):
            yield (*path, "cells"), cells


def _read_cell(number: int, path: FieldPath, source: object) -> Cell:
    texts = source if isinstance(source, list) else [source]
    parts = tuple(text if isinstance(text, str) else "" for text in texts)
    return Cell(number, path, parts, isinstance(source, list))


class Origins:
    """The positions of the cells' lines in the file, which is searched at the first request."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: list[tuple[Cell, int]] = []

    def add(self, cell: Cell, count: int) -> None:
        """Assigns the next `count` lines to the cell; excess lines count as its last line."""
        most = len(cell.lines)
        self._lines += [(cell, min(line, most)) for line in range(1, count + 1)]

    def __call__(self, line: int) -> Place:
        if not 0 < line <= len(self._lines):
            return Place(max(line, 1))
        cell, within = self._lines[line - 1]
        return Place(self._in_file[cell.path_of(within)], f"cell {cell.number}, line {within}")

    @cached_property
    def _in_file(self) -> dict[FieldPath, int]:
        return json_text.lines(self._text, {cell.path_of(within) for cell, within in self._lines})
