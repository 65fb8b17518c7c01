"""Text that is safe to print, without control characters and credentials, and fault-tolerant standard streams."""

import codecs
import errno
import hashlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, TextIO

# ---- standard streams that tolerate characters that the terminal lacks, and a closed reader

_MARKS = {"✓": "+", "✗": "x", "↺": "=", "●": "*", "·": ".", "–": "-", "…": "~", "≠": "#", "±": "+", "─": "-", "│": "|"}


def make_streams_tolerant() -> None:
    """Makes the standard streams of this process fault-tolerant; a closed stream becomes /dev/null."""
    codecs.register_error("plain", _escape_unencodable)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed: open() returns the lowest free descriptor, which is the stream's own
            setattr(sys, name, open(os.open(os.devnull, os.O_RDWR), mode, closefd=False))  # noqa: SIM115
    sys.stdout, sys.stderr = _make_tolerant(sys.stdout), _make_tolerant(sys.stderr)


def _make_tolerant(stream: TextIO) -> TextIO:
    raw: io.RawIOBase = _Unread(stream.fileno(), "w", closefd=False)
    buffer = io.BufferedWriter(raw)
    return io.TextIOWrapper(buffer, stream.encoding, errors="plain", line_buffering=bool(stream.line_buffering))


class _Unread(io.FileIO):
    """A descriptor that discards writes once its reader is gone, such as a closed pipe or terminal."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            return len(data)


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(map(_as_ascii, error.object[error.start : error.end])), error.end


def _as_ascii(character: str) -> str:
    """Returns an ASCII replacement: a similar mark, + for box corners, * for spinners, or the escaped code."""
    if character in _MARKS:
        return _MARKS[character]
    if "\u2500" <= character <= "\u257f":
        return "+"
    return "*" if "\u2800" <= character <= "\u28ff" else ascii(character)[1:-1]


#: Maximum lines of a text that is shown in full.
MOST_LINES = 3
#: Maximum letters of a quoted text, and number of listed names, in a message.
MOST_LETTERS = 80
MOST_NAMES = 20
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
#: C0 and C1 controls except line feed and tab, marks of text direction, and surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
#: User and password of a URL, https://USER:TOKEN@HOST; for http(s) also a user alone, which may be a token.
PASSWORD = re.compile(
    r"(?<=://)[^/?#\s:@]{0,200}:(?!\d*(?:[/?#\s]|$))\S{0,1000}@|(?<=http://|ttps://)[^/?#\s]{1,1000}@", re.IGNORECASE
)


def printable(text: object) -> str:
    """Returns `text` without colours; shows other controls as `\\x1b`, passwords of URLs as ***."""
    plain = _COLOUR.sub("", str(text)).replace("\r\n", "\n").rstrip("\r\n").replace("\r", "\n").expandtabs(4)
    plain = PASSWORD.sub("***@", plain)
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), plain)


def one_line(text: object, most: int = 0) -> str:
    """Returns `text` on one line, shortened to `most` characters if given."""
    line = " ".join(printable(text).split())
    return line if not most or len(line) <= most else f"{line[: most - 1]}…"


def shorten_middle(text: str, most: int = 1500) -> str:
    """Returns the text, or its beginning and end if it is longer than `most`."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} ... {text[-half:]}"


def summarise_texts(value: Any) -> Any:
    """Returns a JSON value with each long text, such as a file, replaced by its line count and checksum."""
    if isinstance(value, dict):
        return {key: summarise_texts(member) for key, member in value.items()}
    if isinstance(value, list):
        return [summarise_texts(member) for member in value]
    if not isinstance(value, str) or len(value.splitlines()) <= MOST_LINES:
        return value
    return f"{len(value.splitlines())} lines, sha256 {hashlib.sha256(value.encode()).hexdigest()[:12]}"


def quote(text: str) -> str:
    return repr(text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "...")


def join_names(names: Sequence[str], most: int = MOST_NAMES) -> str:
    """Joins names with commas, unusual ones in quotes; shows the first `most` of a long list."""
    texts = (name if name.isprintable() and name.strip() and len(name) <= MOST_LETTERS else quote(name)
             for name in names[:most])  # fmt: skip
    return ", ".join(texts) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def report(text: str, end: str = "\n") -> None:
    """Prints a note on stderr, or on stdout in a job of Vertex AI, whose log shows stderr as errors."""
    warns = text.lstrip("\r\x1b[K").startswith("warning")
    on_vertex = "CLOUD_ML_JOB_ID" in os.environ and not warns
    print(text, end=end, file=sys.stdout if on_vertex else sys.stderr, flush=True)


#: Beginnings of credentials: Google's tokens and keys, PEM, JWT, AWS, GitHub, GitLab, Hugging Face, Slack, OpenAI.
_SECRET = re.compile(
    r"-----BEGIN|ya29\.|AIza[\w-]{20}|GOCSPX-|1//0[\w-]{20}|\"private_key\"|eyJ[\w-]{10,}\.[\w-]{10,}\.|AKIA[A-Z0-9]{12}"
    r"|gh[pousr]_\w{20}|github_pat_|glpat-|\bhf_\w{20}|xox[abprs]-|\bsk-[\w-]{20}"
)
#: Names of variables that usually hold a credential.
_NAME = re.compile(r"(^|_)(PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)$", re.IGNORECASE)
#: Values that refer to a credential.
_REFERENCE = re.compile(r"projects/[^/]+/secrets/|\$[({]?\w|\{\{|sm://|gs://|/")


def is_secret(value: object) -> bool:
    """Whether a text looks like a credential."""
    return isinstance(value, str) and bool(_SECRET.search(value) or PASSWORD.search(value))


def is_secret_variable(name: str, value: object) -> bool:
    """Whether a variable of a container holds a credential, by its value, or by its name and a literal value.

    Names of secrets, paths and shell variables are not credentials.
    """
    if is_secret(value):
        return True
    return isinstance(value, str) and len(value) >= 8 and bool(_NAME.search(name)) and not _REFERENCE.match(value)
