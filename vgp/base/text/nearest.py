"""The name that was meant: the one "Did you mean" of the tool.

A document of any author may hold thousands of wrong names: within `at_most` only so many searches are made.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

#: The longest names here have some 60 characters; what is longer resembles nothing.
MAX_NAME = 100

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass
class Searches:
    """How many searches may still be made; below zero, some were asked for in vain."""

    left: int


_searches: ContextVar[Searches | None] = ContextVar("searches", default=None)


class _Enough(Exception):
    """No search is left."""


@contextmanager
def at_most(searches: int) -> Iterator[Searches]:
    """Within it, searches beyond that many find nothing."""
    limit = Searches(searches)
    before = _searches.set(limit)
    try:
        yield limit
    finally:
        _searches.reset(before)


def counted(search: Callable[Arguments, Result | None]) -> Callable[Arguments, Result | None]:
    """A search for what was meant: made once for the same arguments, and counted by `at_most`."""

    def limited(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result | None:
        limit = _searches.get()
        if limit is not None:
            limit.left -= 1
            if limit.left < 0:
                raise _Enough  # which, unlike a result, is not kept
        return search(*arguments, **options)

    cached = cast(Callable[Arguments, Result | None], lru_cache(maxsize=4096)(limited))

    @wraps(search)
    def bounded(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result | None:
        try:
            return cached(*arguments, **options)
        except _Enough:
            return None

    return bounded


def nearest(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The choice most like the word, in whatever case; None where none is `cutoff` (0 to 1) like it."""
    return _nearest(word.lower(), tuple(choices), cutoff) if len(word) <= MAX_NAME else None


@counted
def _nearest(word: str, choices: tuple[str, ...], cutoff: float) -> str | None:
    by_lower = {choice.lower(): choice for choice in reversed(choices)}
    near = difflib.get_close_matches(word, by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def did_you_mean(word: str, choices: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """`Did you mean X?` where something is near, else `otherwise`: by default what there is to choose from."""
    choices = sorted(choices)
    near = nearest(word, choices, cutoff)
    return f"Did you mean {near}?" if near else otherwise or f"Choices: {', '.join(choices) or 'none'}."
