"""Combines the task's optimizers, each parameter in exactly one of them, and freezes parameters."""

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data.task import Task


class Optimizers:
    """Several optimizers as one, with the groups and states of all of them."""

    def __init__(self, parts: Sequence[Optimizer]):
        self.parts = list(parts)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for part in self.parts for group in part.param_groups]

    @property
    def state(self) -> dict[Tensor, Any]:
        return {parameter: state for part in self.parts for parameter, state in part.state.items()}

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad()

    def state_dict(self) -> dict[str, Any]:
        """Returns a state dict like that of one optimizer, with parameters numbered through all groups."""
        states: dict[int, Any] = {}
        groups: list[dict[str, Any]] = []
        for part, first in self._numbered():
            numbered = part.state_dict()
            states |= {first + number: state for number, state in numbered["state"].items()}
            groups += [{**g, "params": [first + number for number in g["params"]]} for g in numbered["param_groups"]]
        return {"state": states, "param_groups": groups}

    def load_state_dict(self, numbered: dict[str, Any]) -> None:
        groups = iter(numbered["param_groups"])
        for part, first in self._numbered():
            own = [next(groups) for _ in part.param_groups]
            numbers = {number for group in own for number in group["params"]}
            part.load_state_dict({
                "state": {n - first: state for n, state in numbered["state"].items() if n in numbers},
                "param_groups": [{**g, "params": [number - first for number in g["params"]]} for g in own],
            })  # fmt: skip

    def _numbered(self) -> Iterator[tuple[Optimizer, int]]:
        """Yields each optimizer with the number of its first parameter."""
        first = 0
        for part in self.parts:
            yield part, first
            first += sum(len(group["params"]) for group in part.param_groups)


def build_optimizers(task: Task, module: nn.Module, learning_rate: float, weight_decay: float) -> Optimizers:
    """Calls the task's `optimizer` and combines its optimizers.

    Raises:
        UserError: the result is not an optimizer or a list of them, or a trained parameter is not in exactly one.
    """
    result: Any = task.optimizer(module, learning_rate, weight_decay)
    parts = [result] if isinstance(result, Optimizer) else list(result) if isinstance(result, list | tuple) else []
    if not parts or not all(isinstance(part, Optimizer) for part in parts):
        raise UserError(
            f"the task's optimizer returns {type(result).__name__} {result!r:.80}: it must return a "
            "torch.optim.Optimizer or a list of them."
        )
    _require_each_once(parts, module)
    rates = [float(group["lr"]) for part in parts for group in part.param_groups]
    if not all(map(math.isfinite, rates)):
        raise UserError(f"the task's optimizer has learning rates {rates}: each must be a finite number.")
    return Optimizers(parts)


def _require_each_once(parts: Sequence[Optimizer], module: nn.Module) -> None:
    names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    counts = Counter(parameter for part in parts for group in part.param_groups for parameter in group["params"])
    if unknown := sum(parameter not in names for parameter in counts):
        raise UserError(
            f"the task's optimizer updates {unknown} tensors that are not parameters of its model, so no checkpoint "
            "would hold them. Make them parameters of the model that `model` returns."
        )
    if duplicates := [names[parameter] for parameter, count in counts.items() if count > 1]:
        raise UserError(f"the task's optimizers update these parameters more than once: {join_names(duplicates)}.")
    if missing := [name for p, name in names.items() if p.requires_grad and p not in counts]:
        raise UserError(
            f"no optimizer of the task updates these parameters: {join_names(missing)}. Add them to one, or "
            "freeze them: "
            "requires_grad=False in `model`, or the setting freeze."
        )


def freeze(module: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Freezes the parameters with a name that matches a pattern; returns these names.

    Raises:
        UserError: a pattern matches no name, or nothing is left to train.
    """
    parameters = dict(module.named_parameters(remove_duplicate=False))
    require_matches("freeze", patterns, parameters)
    for name in (names := matching_names(parameters, patterns)):
        parameters[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in parameters.values()):
        reason = f"freeze={','.join(patterns)} names all" if patterns else "none requires a gradient"
        raise UserError(f"the model has {len(parameters)} parameters, and {reason}: there is nothing to train.")
    return names


def matching_names(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def require_matches(setting: str, patterns: Sequence[str], names: Iterable[str]) -> None:
    """Raises UserError, with the nearest names, for a pattern that matches none of the names."""
    names = list(names)
    for pattern in patterns:
        if not matching_names(names, [pattern]):
            raise UserError(f"{setting}={pattern} matches no name. {_nearest(pattern, names)}")


def _nearest(pattern: str, names: Sequence[str]) -> str:
    """Returns a hint with the names, and the patterns for modules, that are nearest to `pattern`."""
    parts = {name[:place] for name in names for place, letter in enumerate(name) if letter == "."}
    if pattern in parts:
        return f"Did you mean {pattern}.*?"
    choices = [*(f"{part}.*" for part in sorted(parts)), *names]
    near = difflib.get_close_matches(pattern, choices, 3, cutoff=0.5)
    return f"Nearest: {join_names(near)}." if near else f"There are: {join_names(names)}."
