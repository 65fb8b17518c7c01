"""Text made safe to print: without control characters and credentials, on streams that cannot end a command."""

import codecs
import errno
import hashlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, TextIO

# ---- standard streams that cannot end a command: by a character that the terminal lacks, or by nobody reading any more

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


#: Of a text that is shown whole.
MOST_LINES = 3
#: Of a text, and of names, that a message quotes.
MOST_LETTERS = 80
MOST_NAMES = 20
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: C0 and C1 controls but for line feed and tab, marks that turn the direction of text, halves of surrogate pairs.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
#: User and password of an address, https://USER:TOKEN@HOST; of http also a user alone, which may be a token.
PASSWORD = re.compile(
    r"(?<=://)[^/?#\s:@]{0,200}:(?!\d*(?:[/?#\s]|$))\S{0,1000}@|(?<=http://|ttps://)[^/?#\s]{1,1000}@", re.IGNORECASE
)


def printable(text: object) -> str:
    """`text` with its lines; colours are dropped, other controls are shown as `\\x1b`, passwords of URLs as ***."""
    plain = _COLOUR.sub("", str(text)).replace("\r\n", "\n").rstrip("\r\n").replace("\r", "\n").expandtabs(4)
    plain = PASSWORD.sub("***@", plain)
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), plain)


def one_line(text: object, most: int = 0) -> str:
    """`text` on one line; with `most`, no longer than that many characters."""
    line = " ".join(printable(text).split())
    return line if not most or len(line) <= most else f"{line[: most - 1]}…"


def clipped(text: str, most: int = 1500) -> str:
    """The text, or its two ends."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def abridged(value: Any) -> Any:
    """A JSON value in which a text of many lines, such as a file's, is told by its size and its checksum."""
    if isinstance(value, dict):
        return {key: abridged(member) for key, member in value.items()}
    if isinstance(value, list):
        return [abridged(member) for member in value]
    if not isinstance(value, str) or len(value.splitlines()) <= MOST_LINES:
        return value
    return f"{len(value.splitlines())} lines, sha256 {hashlib.sha256(value.encode()).hexdigest()[:12]}"


def quoted(text: str) -> str:
    return repr(text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "...")


def listed(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Names separated by commas: ordinary ones as they are, others in quotes; of long lists the first `most`."""
    shown = (name if name.isprintable() and name.strip() and len(name) <= MOST_LETTERS else quoted(name)
             for name in names[:most])  # fmt: skip
    return ", ".join(shown) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def report(text: str, end: str = "\n") -> None:
    """Prints what is no error: on stderr; in a job of Vertex AI on stdout, since its log calls stderr errors."""
    warns = text.lstrip("\r\x1b[K").startswith("warning")
    on_vertex = "CLOUD_ML_JOB_ID" in os.environ and not warns
    print(text, end=end, file=sys.stdout if on_vertex else sys.stderr, flush=True)


#: What begins like a credential: Google's tokens and keys, PEM, JWT, AWS, GitHub, GitLab, Hugging Face, Slack, OpenAI.
_SECRET = re.compile(
    r"-----BEGIN|ya29\.|AIza[\w-]{20}|GOCSPX-|1//0[\w-]{20}|\"private_key\"|eyJ[\w-]{10,}\.[\w-]{10,}\.|AKIA[A-Z0-9]{12}"
    r"|gh[pousr]_\w{20}|github_pat_|glpat-|\bhf_\w{20}|xox[abprs]-|\bsk-[\w-]{20}"
)
#: Names of variables that hold a credential by what they are called.
_NAME = re.compile(r"(^|_)(PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)$", re.IGNORECASE)
#: Values that name where a credential is, instead of being one.
_REFERENCE = re.compile(r"projects/[^/]+/secrets/|\$[({]?\w|\{\{|sm://|gs://|/")


def is_secret(value: object) -> bool:
    """Whether a text looks like a credential by itself."""
    return isinstance(value, str) and bool(_SECRET.search(value) or PASSWORD.search(value))


def is_secret_variable(name: str, value: object) -> bool:
    """Whether a variable of a container holds a credential: by its value, or by its name and a value of its own.

    The name of a secret, a path and a variable of the shell are no credentials.
    """
    if is_secret(value):
        return True
    return isinstance(value, str) and len(value) >= 8 and bool(_NAME.search(name)) and not _REFERENCE.match(value)
