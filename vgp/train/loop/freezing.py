"""Which parameters are not trained: those that the task's model says so of, and those that patterns name."""

import difflib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from torch import nn

from vgp.base.exits import UserError
from vgp.base.printable import listed


def freeze(module: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Has the parameters whose names fit the patterns want no gradient; their names. One of several names is enough.

    Raises:
        UserError: a pattern fits none, or nothing is left to train.
    """
    parameters = dict(module.named_parameters(remove_duplicate=False))
    require_fitting("freeze", patterns, parameters)
    for name in (names := matching(parameters, patterns)):
        parameters[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in parameters.values()):
        why = f"freeze={','.join(patterns)} names all" if patterns else "none wants a gradient"
        raise UserError(f"the model has {len(parameters)} parameters, and {why}: there is nothing to train.")
    return names


def matching(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def require_fitting(setting: str, patterns: Sequence[str], names: Iterable[str]) -> None:
    """Raises UserError for a pattern that fits none of the names, with the nearest that would."""
    names = list(names)
    for pattern in patterns:
        if not matching(names, [pattern]):
            raise UserError(f"{setting}={pattern} fits no name. {_nearest(pattern, names)}")


def _nearest(pattern: str, names: Sequence[str]) -> str:
    """Of the names and of the patterns for what lies below a part of them."""
    parts = {name[:place] for name in names for place, letter in enumerate(name) if letter == "."}
    if pattern in parts:
        return f"Did you mean {pattern}.*?"
    choices = [*(f"{part}.*" for part in sorted(parts)), *names]
    near = difflib.get_close_matches(pattern, choices, 3, cutoff=0.5)
    return f"Nearest: {listed(near)}." if near else f"There are: {listed(names)}."
