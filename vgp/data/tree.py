"""Values merged in a tree whose shape depends on their number alone: sums of floats are the same wherever it grows."""

from collections.abc import Callable, Iterable
from typing import TypeVar

Value = TypeVar("Value")

#: Values that are merged one after the other, in order; then the results of so many groups, and so on.
FAN_IN = 64


def merged(values: Iterable[Value], merge: Callable[[Value, Value], Value]) -> Value | None:
    """All values as one, None of none; holds one value of each level at a time."""
    levels: list[tuple[int, Value] | None] = []
    for value in values:
        _add(levels, 0, value, merge)
    result: Value | None = None
    for level in levels:
        if level is not None:
            result = level[1] if result is None else merge(level[1], result)
    return result


def _add(
    levels: list[tuple[int, Value] | None], height: int, value: Value, merge: Callable[[Value, Value], Value]
) -> None:
    if height == len(levels):
        levels.append(None)
    there = levels[height]
    count, whole = (1, value) if there is None else (there[0] + 1, merge(there[1], value))
    levels[height] = (count, whole) if count < FAN_IN else None
    if count == FAN_IN:
        _add(levels, height + 1, whole, merge)
