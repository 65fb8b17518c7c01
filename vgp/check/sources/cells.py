"""The code cells of a notebook, and where each of their lines stands in its file."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from vgp.base.documents import json_text
from vgp.base.documents.field_path import FieldPath
from vgp.base.documents.place import Place


@dataclass(frozen=True)
class Cell:
    """A code cell. `number` counts all cells of the notebook, from 1; its source stands at `path`, in `parts`."""

    number: int
    path: FieldPath
    parts: tuple[str, ...]
    #: Whether the source is a list of texts, each on a line of its own in most files.
    is_list: bool

    @cached_property
    def lines(self) -> list[str]:
        return "".join(self.parts).rstrip("\n").split("\n")

    @cached_property
    def _ends(self) -> list[int]:
        """How many line breaks stand up to the end of each part."""
        return list(accumulate(part.count("\n") for part in self.parts))

    def path_of(self, line: int) -> FieldPath:
        """The path of the text in the file that a line (from 1) begins in."""
        part = min(bisect_right(self._ends, line - 1), len(self.parts) - 1)
        return (*self.path, max(part, 0)) if self.is_list else self.path


def code(data: Any) -> Iterator[Cell]:
    """The code cells; also those of the older form with worksheets."""
    number = 0
    for path, cells in _lists(data):
        for index, cell in enumerate(cells):
            number += 1
            if isinstance(cell, dict) and cell.get("cell_type") == "code":
                key = "source" if "source" in cell else "input"
                yield _cell(number, (*path, index, key), cell.get(key))


def _lists(data: Any) -> Iterator[tuple[FieldPath, list[Any]]]:
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


def _cell(number: int, path: FieldPath, source: Any) -> Cell:
    texts = source if isinstance(source, list) else [source]
    parts = tuple(text if isinstance(text, str) else "" for text in texts)
    return Cell(number, path, parts, isinstance(source, list))


class Origins:
    """Where the lines of the texts that are made of cells stand. The file is searched when the first is asked for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: list[tuple[Cell, int]] = []

    def add(self, cell: Cell, count: int) -> None:
        """The next `count` lines are those of the cell; what is more than it has stands for its last."""
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
