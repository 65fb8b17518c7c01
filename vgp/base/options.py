"""The options of a task: names that it knows, and what is said of one that it does not."""

import difflib
from collections.abc import Iterable

from vgp.base.exits import UserError


def check(task: str, options: Iterable[str], known: Iterable[str]) -> None:
    """Raises UserError for an option that the task does not have."""
    names = list(known)
    for option in options:
        if option not in names:
            raise UserError(f"{task} has no option {option!r}. {nearest(option, names)}")


def nearest(name: str, choices: Iterable[str]) -> str:
    """Did-you-mean, or all there is to choose from."""
    known = list(choices)
    match = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {match[0]}?" if match else f"There is {', '.join(known) or 'none'}."
