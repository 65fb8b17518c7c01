"""Searches for similar names, for "Did you mean X?".

An untrusted document may have thousands of wrong names, so `at_most` limits the number of searches.
"""

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

#: Maximum length of a name to search for; the longest real names have about 60 characters.
MAX_NAME = 100

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass
class Searches:
    """The number of searches left; negative if searches were skipped."""

    left: int


_searches: ContextVar[Searches | None] = ContextVar("searches", default=None)


class _Enough(Exception):
    """A signal that no search is left."""


@contextmanager
def at_most(searches: int) -> Iterator[Searches]:
    """Limits the searches inside the block; further ones return None."""
    limit = Searches(searches)
    before = _searches.set(limit)
    try:
        yield limit
    finally:
        _searches.reset(before)


def count_searches(search: Callable[Arguments, Result | None]) -> Callable[Arguments, Result | None]:
    """Decorates a search, so that its results are cached and its calls are counted by `at_most`."""

    def search_counted(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result | None:
        limit = _searches.get()
        if limit is not None:
            limit.left -= 1
            if limit.left < 0:
                raise _Enough  # unlike a result, an exception is not cached
        return search(*arguments, **options)

    cached = cast(Callable[Arguments, Result | None], lru_cache(maxsize=4096)(search_counted))

    @wraps(search)
    def search_within_limit(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result | None:
        try:
            return cached(*arguments, **options)
        except _Enough:
            return None

    return search_within_limit


def nearest(word: str, choices: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Returns the choice most similar to the word, ignoring case; None below a similarity of `cutoff` (0 to 1)."""
    return _find_nearest(word.lower(), tuple(choices), cutoff) if len(word) <= MAX_NAME else None


@count_searches
def _find_nearest(word: str, choices: tuple[str, ...], cutoff: float) -> str | None:
    by_lower = {choice.lower(): choice for choice in reversed(choices)}
    near = difflib.get_close_matches(word, by_lower, n=1, cutoff=cutoff)
    return by_lower[near[0]] if near else None


def did_you_mean(word: str, choices: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """Returns `Did you mean X?` if a choice is similar, else `otherwise`, by default the list of choices."""
    choices = sorted(choices)
    near = nearest(word, choices, cutoff)
    return f"Did you mean {near}?" if near else otherwise or f"Choices: {', '.join(choices) or 'none'}."
