"""How much work one document may cost: counted, so that the same file always ends at the same place; seconds come last.

    with document():
        spend("steps")      # raises Exhausted when the document has had all its steps

Outside of a document nothing is counted.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any, TypeVar

#: The largest public pipelines have hundreds of steps; these are some twenty times what they need.
LIMITS = {
    "steps": (10_000, "steps and worker pools, each time that they are run"),
    "look-ups": (200_000, "look-ups of parameters"),
    "characters": (50_000_000, "characters of commands, images and JSON texts"),
    "findings": (20_000, "findings"),
    "similar names": (500, "searches for similar names"),
}
SECONDS = 20

Result = TypeVar("Result")


class Exhausted(Exception):
    """The document has used up a budget: which, in a sentence."""


class _Budget:
    def __init__(self) -> None:
        self.left = {name: limit for name, (limit, _) in LIMITS.items()}
        self.until = time.monotonic() + SECONDS


_budget: ContextVar[_Budget | None] = ContextVar("budget", default=None)


@contextmanager
def document() -> Iterator[_Budget]:
    """Counts the work of one document."""
    token = _budget.set(_Budget())
    try:
        budget = _budget.get()
        assert budget is not None
        yield budget
    finally:
        _budget.reset(token)


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
        raise Exhausted(spent(name))
    if time.monotonic() > budget.until:
        raise Exhausted(f"Judging the document took more than {SECONDS} seconds.")


def spent(name: str) -> str:
    limit, what = LIMITS[name]
    return f"The document needs more than {limit:,} {what}."


def suggestion(search: Callable[..., Result | None]) -> Callable[..., Result | None]:
    """A search for what was meant: each is done once, and counted; None when the document has had its searches."""

    @lru_cache(maxsize=4096)
    def counted(*arguments: Any, **options: Any) -> Result | None:
        spend("similar names")
        return search(*arguments, **options)

    @wraps(search)
    def bounded(*arguments: Any, **options: Any) -> Result | None:
        try:
            return counted(*arguments, **options)
        except Exhausted:
            return None

    return bounded
