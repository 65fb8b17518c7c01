"""Notebooks -> the documents of their code cells: Python, and gcloud commands behind `!` or in a %%bash cell."""

import re
import warnings
from dataclasses import replace
from itertools import islice
from pathlib import Path

from vgp.documents import json_text
from vgp.documents.budget import Exhausted
from vgp.documents.document import Document, numbered
from vgp.documents.reading import Unreadable
from vgp.sources import cells, python_code, shell

#: NAME = ! command, or = %magic: what it gives is computed.
_TAKEN = re.compile(r"^(\s*[\w, ]+=\s*)[!%].*$")
#: Each is read as Python by itself first.
MAX_CELLS = 10_000
_SHELL_CELLS = ("%%bash", "%%sh", "%%shell", "%%script bash", "%%script sh")


def documents(file: str, text: str, folder: Path | None) -> list[Document]:
    """What the cells ask for; a finding's line is that of the file, and its cell is told.

    Names that one cell sets are known in all: cells are read as one program. A cell that is no Python is left out.
    """
    try:
        data, _ = json_text.loads(text)
    except (ValueError, RecursionError) as error:
        is_deep = isinstance(error, RecursionError)
        fault = Exhausted("The notebook is nested too deep.") if is_deep else Unreadable(file, f"no JSON: {error}")
        return [Document(file, None, "", fault=fault)]
    program: list[str] = []
    script: list[str] = []
    whole = True
    origins = cells.Origins(text)
    every = cells.code(data)
    for cell in islice(every, MAX_CELLS):
        lines = cell.lines
        is_shell = lines[0].strip().startswith(_SHELL_CELLS)
        writes = lines[0].strip().removeprefix("%%writefile ") if lines[0].strip().startswith("%%writefile ") else ""
        python, commands = _parted(lines, is_shell, writes.removeprefix("-a ").strip())
        is_read = _is_python("\n".join(python))
        whole = whole and is_read
        program += python if is_read else [""] * len(python)
        script += commands
        origins.add(cell, len(commands))
    asked = python_code.documents(file, "\n".join(program), origins)
    if not whole:  # what the program lacks may stand in the cell that is left out
        asked = [replace(document, broken=()) for document in asked]
    found = asked + shell.documents(file, "\n".join(script), folder, origins)
    found.sort(key=lambda document: document.line(()))
    if next(every, None) is not None:
        found.append(Document(file, None, "", fault=Exhausted(f"The notebook has more than {MAX_CELLS:,} code cells.")))
    return numbered(found)


def _parted(lines: list[str], is_shell: bool, writes: str) -> tuple[list[str], list[str]]:
    """The cell's lines as Python and as shell, each with blanks where the other stands, so that lines keep numbers."""
    blank = [""] * len(lines)
    if is_shell:
        return blank, ["", *lines[1:]]
    if writes:  # gcloud may be given the file
        end = "END_OF_THE_CELL"
        return [*blank, ""], [f"cat > {writes} << {end}", *lines[1:], end]
    if lines[0].lstrip().startswith("%%"):
        return ["", *lines[1:]] if lines[0].startswith(("%%time", "%%capture")) else blank, blank
    python, script, goes_on = [], [], False
    for line in lines:
        of_shell = goes_on or line.lstrip().startswith("!")
        indent = line[: len(line) - len(line.lstrip())]
        is_magic = of_shell or line.lstrip().startswith("%")
        python.append(f"{indent}pass" if is_magic else _TAKEN.sub(r"\1_", line))
        script.append(line.lstrip().removeprefix("!").lstrip() if of_shell else "")
        goes_on = of_shell and line.rstrip().endswith("\\")
    return python, _variables(script)


def _variables(script: list[str]) -> list[str]:
    """{NAME} in a command of a notebook is Python's: not known here, as a variable of the shell is not."""
    return [re.sub(r"\$?\{(\w+)\}", r"${\1}", line) for line in script]


def _is_python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<cell>", "exec", flags=0x400)  # PyCF_ONLY_AST: nothing is run
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def is_notebook(text: str) -> bool:
    """Whether a JSON text is a notebook, by its beginning."""
    return '"cells"' in text and ('"nbformat"' in text or '"cell_type"' in text) and text.lstrip().startswith("{")
