"""Standard streams that cannot end a command: by a character that the terminal lacks, or by nobody reading any more."""

import codecs
import errno
import io
import os
import sys
from typing import Any, TextIO

_MARKS = {"✓": "+", "✗": "x", "↺": "=", "●": "*", "·": ".", "–": "-", "…": "~", "≠": "#", "±": "+", "─": "-", "│": "|"}


def prepare() -> None:
    """Makes standard input, output and error of this process tolerant; a closed one leads nowhere."""
    codecs.register_error("plain", _plain)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: the lowest free descriptor is its own
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, closefd=False))  # noqa: SIM115
    sys.stdout, sys.stderr = _tolerant(sys.stdout), _tolerant(sys.stderr)


def _tolerant(stream: TextIO) -> TextIO:
    raw: io.RawIOBase = _Unread(stream.fileno(), "w", closefd=False)
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, stream.encoding, errors="plain", line_buffering=bool(stream.line_buffering))


class _Unread(io.FileIO):
    """A descriptor whose reader may leave, as of a pipe or of a terminal that hung up: what is written then is lost."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            return len(data)


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_as_ascii, error.object[error.start : error.end])), error.end


def _as_ascii(character: str) -> str:
    """A mark by one that is alike, corners of boxes and frames of spinners in their width, others by their number."""
    if character in _MARKS:
        return _MARKS[character]
    if "\u2500" <= character <= "\u257f":
        return "+"
    return "*" if "\u2800" <= character <= "\u28ff" else ascii(character)[1:-1]
