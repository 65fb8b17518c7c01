"""Text of somebody else's, for a message: without control characters, and of much only the start."""

import os
import re
import sys
from collections.abc import Sequence

#: C0 and C1 controls but for line feed and tab: a terminal obeys them.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
MOST_LETTERS = 80
MOST_NAMES = 20


def plain(text: object) -> str:
    """The text with its lines, and each control character as `\\x1b`."""
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", str(text))


def quoted(text: str) -> str:
    return repr(text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "...")


def listed(names: Sequence[str]) -> str:
    """Names separated by commas: ordinary ones as they are, others in quotes."""
    shown = (name if name.isprintable() and name.strip() and len(name) <= MOST_LETTERS else quoted(name)
             for name in names[:MOST_NAMES])  # fmt: skip
    return ", ".join(shown) + (f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else "")


def report(text: str, end: str = "\n") -> None:
    """Prints what is no error: on stderr; in a job of Vertex AI on stdout, since its log calls stderr errors."""
    warns = text.lstrip("\r\x1b[K").startswith("warning")
    on_vertex = "CLOUD_ML_JOB_ID" in os.environ and not warns
    print(text, end=end, file=sys.stdout if on_vertex else sys.stderr, flush=True)
