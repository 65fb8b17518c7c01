"""What updates the weights: one optimizer of the task's or several, each parameter in exactly one of them."""

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from vgp.base.exits import UserError
from vgp.base.text.printable import listed
from vgp.data.task import Task


class Optimizers:
    """Several optimizers as one: their groups one after the other, and the state of each parameter."""

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
        """As an optimizer's own: parameters are numbered through all groups."""
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
        """Each with the number of its first parameter."""
        first = 0
        for part in self.parts:
            yield part, first
            first += sum(len(group["params"]) for group in part.param_groups)


def of_task(task: Task, module: nn.Module, learning_rate: float, weight_decay: float) -> Optimizers:
    """What the task's `optimizer` gives.

    Raises:
        UserError: it is none, or the parameters that are trained are not in exactly one of them each.
    """
    given: Any = task.optimizer(module, learning_rate, weight_decay)
    parts = [given] if isinstance(given, Optimizer) else list(given) if isinstance(given, list | tuple) else []
    if not parts or not all(isinstance(part, Optimizer) for part in parts):
        raise UserError(
            f"the task's optimizer gives {type(given).__name__} {given!r:.80}: it must give a torch.optim.Optimizer, "
            "or a list of them."
        )
    _require_each_once(parts, module)
    rates = [float(group["lr"]) for part in parts for group in part.param_groups]
    if not all(map(math.isfinite, rates)):
        raise UserError(f"the task's optimizer has learning rates {rates}: each must be a finite number.")
    return Optimizers(parts)


def _require_each_once(parts: Sequence[Optimizer], module: nn.Module) -> None:
    names: dict[Tensor, str] = {parameter: name for name, parameter in module.named_parameters()}
    held = [parameter for part in parts for group in part.param_groups for parameter in group["params"]]
    counts: dict[Tensor, int] = {}
    for parameter in held:
        counts[parameter] = counts.get(parameter, 0) + 1
    if strange := sum(parameter not in names for parameter in counts):
        raise UserError(
            f"the task's optimizer updates {strange} tensors that are no parameters of its model: no checkpoint would "
            "hold them. Make them parameters of the model that `model` returns."
        )
    if twice := [names[parameter] for parameter, count in counts.items() if count > 1]:
        raise UserError(f"the task's optimizers update these parameters more than once: {listed(twice)}.")
    if none := [name for p, name in names.items() if p.requires_grad and p not in counts]:
        raise UserError(
            f"no optimizer of the task updates these parameters: {listed(none)}. Give them to one, or freeze them: "
            "requires_grad=False in `model`, or the setting freeze."
        )


# ---- which parameters are not trained: those that the task's model says so of, and those that patterns name


def freeze(module: nn.Module, patterns: Sequence[str]) -> list[str]:
    """Has the parameters whose names fit the patterns want no gradient; their names. One of several names is enough.

    Raises:
        UserError: a pattern fits none, or nothing is left to train.
    """
    parameters = dict(module.named_parameters(remove_duplicate=False))
    require_matches("freeze", patterns, parameters)
    for name in (names := matching_names(parameters, patterns)):
        parameters[name].requires_grad_(False)
    if not any(parameter.requires_grad for parameter in parameters.values()):
        why = f"freeze={','.join(patterns)} names all" if patterns else "none wants a gradient"
        raise UserError(f"the model has {len(parameters)} parameters, and {why}: there is nothing to train.")
    return names


def matching_names(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def require_matches(setting: str, patterns: Sequence[str], names: Iterable[str]) -> None:
    """Raises UserError for a pattern that fits none of the names, with the nearest that would."""
    names = list(names)
    for pattern in patterns:
        if not matching_names(names, [pattern]):
            raise UserError(f"{setting}={pattern} fits no name. {_nearest(pattern, names)}")


def _nearest(pattern: str, names: Sequence[str]) -> str:
    """Of the names and of the patterns for what lies below a part of them."""
    parts = {name[:place] for name in names for place, letter in enumerate(name) if letter == "."}
    if pattern in parts:
        return f"Did you mean {pattern}.*?"
    choices = [*(f"{part}.*" for part in sorted(parts)), *names]
    near = difflib.get_close_matches(pattern, choices, 3, cutoff=0.5)
    return f"Nearest: {listed(near)}." if near else f"There are: {listed(names)}."
