"""Files and standard input as text within limits, the work budget of one document, and the path of a value."""

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
from vgp.base.text.printable import one_line, shorten_middle

# ---- the work budget of one document: counted, so that a file always stops at the same place; seconds are a fallback

#     with document():
#         spend("steps")      # raises Exhausted when the budget of steps is used up
#
# Outside of `document()` nothing is counted.

#: About twenty times what the largest public pipelines need, which have hundreds of steps.
LIMITS = {
    "steps": (10_000, "steps and worker pools, counted once per execution"),
    "look-ups": (200_000, "look-ups of parameters"),
    "characters": (50_000_000, "characters of commands, images and JSON texts"),
    "findings": (20_000, "findings"),
}
SIMILAR_NAMES = 500
SECONDS = 20


class Exhausted(Exception):
    """A budget that the document has used up, named in the message."""


class _Budget:
    def __init__(self) -> None:
        self.left = {name: limit for name, (limit, _) in LIMITS.items()}
        self.until = time.monotonic() + SECONDS


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def document() -> Iterator[nearest.Searches]:
    """Counts the work of one document; yields its budget of searches for similar names, which may run out silently."""
    before = _budget.set(_Budget())
    try:
        with nearest.at_most(SIMILAR_NAMES) as searches:
            yield searches
    finally:
        _budget.reset(before)


def spend(name: str, amount: int = 1) -> None:
    """Subtracts `amount` from the document's budget `name`.

    Raises:
        Exhausted: the budget or the time is used up.
    """
    budget = _budget.get()
    if budget is None:
        return
    budget.left[name] -= amount
    if budget.left[name] < 0:
        limit, unit = LIMITS[name]
        raise Exhausted(f"The document needs more than {limit:,} {unit}.")
    if time.monotonic() > budget.until:
        raise Exhausted(f"Checking the document took more than {SECONDS} seconds.")


FieldPath = tuple[str | int, ...]


def format_path(path: FieldPath) -> str:
    """Formats a path as `root.dag.tasks.train` or `workerPoolSpecs[0].machineSpec`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


#: The largest compiled pipelines have a few MB; this bound keeps a check within seconds and 200 MB of memory.
MAX_BYTES = 20_000_000


class Unreadable(RequestError):
    """A file, or a part of it, that cannot be read; the message has the file, the path in it and the reason."""

    def __init__(self, file: str, reason: str, path: FieldPath = ()) -> None:
        where = f"{file}: {format_path(path)}" if path else file
        self.reason, self.path = reason, path
        super().__init__(one_line(shorten_middle(f"{where}: {reason}")))


#: A URI that pathlib has turned into a path, which removes one of its slashes.
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+):/(?=[^/])")


def refuse_address(path: Path, option: str = "") -> None:
    """Raises Unreadable if `path` is a URI such as gs://BUCKET/x; `option` names the option with the path."""
    match = _ADDRESS.match(str(path))
    if match:
        address = f"{match.group(1)}://{str(path)[match.end() :]}"
        raise Unreadable(
            f"{option} {address}".strip(), "a URI, but a path on this machine is required: copy the file here"
        )


def read(path: Path, most: int = MAX_BYTES, *, instead: str = "") -> str:
    """Returns the text of a file.

    Args:
        most: Maximum size in bytes.
        instead: Ends the message about a file that is not regular, with an alternative.

    Raises:
        Unreadable: it is not a regular text file of at most `most` bytes.
    """
    refuse_address(path)
    try:
        # Opening a pipe would block until it has a writer.
        is_regular = stat.S_ISREG(os.stat(path).st_mode)
        content = _read_beginning(path, most + 1) if is_regular else b""
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        raise Unreadable(str(path), getattr(error, "strerror", None) or str(error)) from None
    if not is_regular:
        reason = "a folder: give a file" if path.is_dir() else f"not a regular file{instead}"
        raise Unreadable(str(path), reason)
    return _decode(str(path), content, most)


def _read_beginning(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        return file.read(most)


def standard_input() -> str:
    """Returns the text on standard input; raises Unreadable."""
    content = getattr(sys.stdin, "buffer", sys.stdin).read(MAX_BYTES + 1)
    return content if isinstance(content, str) else _decode("<stdin>", content, MAX_BYTES)


def _decode(file: str, content: bytes, most: int) -> str:
    """Returns the content as text; raises Unreadable if it is larger than `most` bytes, or not UTF-8."""
    if len(content) > most:
        raise Unreadable(file, f"larger than {most // 1_000_000} MB, the maximum for one file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if content.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise Unreadable(file, "a UTF-16 text, as PowerShell's > writes it: save it as UTF-8") from None
        raise Unreadable(file, f"not a text file (byte {error.start} is not UTF-8)") from None
