"""Text of somebody else's, for a message: without control characters, and of much only the start."""

from collections.abc import Sequence

MOST_LETTERS = 80
MOST_NAMES = 20


def quoted(text: str) -> str:
    return repr(text if len(text) <= MOST_LETTERS else text[:MOST_LETTERS] + "...")


def listed(names: Sequence[str]) -> str:
    """Names separated by commas: ordinary ones as they are, others in quotes."""
    shown = (name if name.isprintable() and name.strip() and len(name) <= MOST_LETTERS else quoted(name)
             for name in names[:MOST_NAMES])  # fmt: skip
    return ", ".join(shown) + (f" and {len(names) - MOST_NAMES:,} more" if len(names) > MOST_NAMES else "")
