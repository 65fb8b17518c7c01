"""How much work one document may cost: counted, so that the same file always ends at the same place; seconds come last.

    with document():
        spend("steps")      # raises Exhausted when the document has had all its steps

Outside of a document nothing is counted.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from vgp.base.text import nearest

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
