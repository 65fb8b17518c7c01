"""Files and standard input as text, within limits; how much work one document may cost; the path of a value in one."""

import os
import re
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from vgp.base.errors import RequestError
from vgp.base.text import nearest
from vgp.base.text.printable import clipped, one_line

# ---- how much work one document may cost: counted, so that a file always ends at the same place; seconds come last

#     with document():
#         spend("steps")      # raises Exhausted when the document has had all its steps
#
# Outside of a document nothing is counted.

#: The largest public pipelines have hundreds of steps; these are some twenty times what they need.
LIMITS = {
    "steps": (10_000, "steps and worker pools, each time that they are run"),
    "look-ups": (200_000, "look-ups of parameters"),
    "characters": (50_000_000, "characters of commands, images and JSON texts"),
    "findings": (20_000, "findings"),
}
SIMILAR_NAMES = 500
SECONDS = 20


class Exhausted(Exception):
    """The document has used up a budget: which, in a sentence."""


class _Budget:
    def __init__(self) -> None:
        self.left = {name: limit for name, (limit, _) in LIMITS.items()}
        self.until = time.monotonic() + SECONDS


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def document() -> Iterator[nearest.Searches]:
    """Counts the work of one document; gives the searches for similar names, whose end is no error."""
    before = _budget.set(_Budget())
    try:
        with nearest.at_most(SIMILAR_NAMES) as searches:
            yield searches
    finally:
        _budget.reset(before)


def spend(name: str, amount: int = 1) -> None:
    """Takes `amount` from what the document has left of `name`.

    Raises:
        Exhausted: it has no more of it, or no time left.
    """
    budget = _budget.get()
    if budget is None:
        return
    budget.left[name] -= amount
    if budget.left[name] < 0:
        limit, what = LIMITS[name]
        raise Exhausted(f"The document needs more than {limit:,} {what}.")
    if time.monotonic() > budget.until:
        raise Exhausted(f"Judging the document took more than {SECONDS} seconds.")


FieldPath = tuple[str | int, ...]


def dotted(path: FieldPath) -> str:
    """root.dag.tasks.train, workerPoolSpecs[0].machineSpec."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


#: The largest compiled pipelines have a few MB; this leaves room, and keeps a check in seconds and 200 MB.
MAX_BYTES = 20_000_000


class Unreadable(RequestError):
    """A file or a part of it that no judgement is possible on: which file, where in it, and why."""

    def __init__(self, file: str, reason: str, path: FieldPath = ()) -> None:
        where = f"{file}: {dotted(path)}" if path else file
        self.reason, self.path = reason, path
        super().__init__(one_line(clipped(f"{where}: {reason}")))


#: A URI that was made a path, which takes one of its slashes.
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/(?=[^/])")


def refuse_address(path: Path, what: str = "") -> None:
    """Raises Unreadable for an address such as gs://BUCKET/x in place of a path; `what`: the option that has it."""
    match = _ADDRESS.match(str(path))
    if match:
        address = f"{match.group(1)}://{str(path)[match.end() :]}"
        raise Unreadable(f"{what} {address}".strip(), "an address, and this takes a path of this machine: copy it here")


def read(path: Path, most: int = MAX_BYTES, *, instead: str = "") -> str:
    """The text of a file.

    Raises:
        Unreadable: it is no regular file of at most `most` bytes, or no text. `instead`: what else may be given.
    """
    refuse_address(path)
    try:
        # Opening a pipe would wait for whoever writes into it.
        is_regular = stat.S_ISREG(os.stat(path).st_mode)
        content = _beginning(path, most + 1) if is_regular else b""
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise Unreadable(str(path), getattr(error, "strerror", None) or str(error)) from None
    if not is_regular:
        what = "a folder: give a file" if path.is_dir() else f"not a regular file{instead}"
        raise Unreadable(str(path), what)
    return _decoded(str(path), content, most)


def _beginning(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)


def standard_input() -> str:
    """The text on standard input; raises Unreadable."""
    content = getattr(sys.stdin, "buffer", sys.stdin).read(MAX_BYTES + 1)
    return content if isinstance(content, str) else _decoded("<stdin>", content, MAX_BYTES)


def _decoded(file: str, content: bytes, most: int) -> str:
    """The content as text; raises Unreadable: it is larger than may be, or no text."""
    if len(content) > most:
        raise Unreadable(file, f"larger than {most // 1_000_000} MB, the most that is read of one file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise Unreadable(
                file, "not a text file in UTF-8 but in UTF-16, as PowerShell's > writes it: save it as UTF-8"
            ) from None
        raise Unreadable(file, f"not a text file (byte {error.start} is no UTF-8)") from None
