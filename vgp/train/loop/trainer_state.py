"""What no step number tells: the state of a trainer besides model and optimizer, as named parts of each checkpoint.

A part is such as the scale of a fp16 loss, an average of weights, or the best validation so far. `Learner.state` holds
them; whoever needs one adds it before `Trainer` looks for a checkpoint:

    learner.state.add("scaler", scaler)
"""

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor


class Part(Protocol):
    """A named part of a trainer's state."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Its tensors by name: the live ones, always the same. Cut over the ranks as parameters are, or equal on all.

        They change in the optimizer's update and in a validation only, after `Learner.before_update`. A restore fills
        them in place.
        """

    def scalars(self) -> dict[str, Any]:
        """Its other values as JSON, the same on every rank."""

    def restore(self, scalars: dict[str, Any]) -> None:
        """Takes the scalars of a checkpoint, whose tensors are filled in already.

        Raises:
            ValueError: this part cannot have written them.
        """


class TrainerState:
    """The parts that a trainer has, by name."""

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}

    def add(self, name: str, part: Part) -> None:
        """Has every checkpoint hold the part: its tensors as `name/...`, its scalars as `trainer` of the manifest."""
        if name in self.parts or name in ("model", "optimizer") or "/" in name:
            raise ValueError(f"{name!r} names another part of a checkpoint")
        self.parts[name] = part

    def tensors(self) -> dict[str, Tensor]:
        return {f"{name}/{key}": tensor for name, part in self.parts.items() for key, tensor in part.tensors().items()}

    def scalars(self) -> dict[str, Any]:
        return {name: part.scalars() for name, part in self.parts.items()}

    def restore(self, scalars: Mapping[str, Any]) -> None:
        """Takes the scalars of a checkpoint. Raises ValueError unless they are those of these parts."""
        if scalars.keys() != self.parts.keys():
            raise ValueError(f"it holds {_named(scalars)} besides model and optimizer, not {_named(self.parts)}")
        for name, part in self.parts.items():
            if not isinstance(scalars[name], dict):
                raise ValueError(f"{name} is no mapping")
            part.restore(scalars[name])


def _named(parts: Mapping[str, Any]) -> str:
    return ", ".join(sorted(parts)) or "nothing"
