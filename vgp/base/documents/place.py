"""Where a line of a text stands in its file, and what its reader calls it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """`line`: of the file, from 1. `cell`: "cell 3, line 7" in a notebook, whose file nobody reads by its lines."""

    line: int
    cell: str = ""

    def __str__(self) -> str:
        return self.cell or f"line {self.line}"


#: The place of a line of a text, from 1. `Place` itself is that of a text that fills its file.
At = Callable[[int], Place]
