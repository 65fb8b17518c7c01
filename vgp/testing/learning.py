"""Whether a model learns: gradients that lead downwards, and a few rows learned by heart."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from vgp.data.task import Batch
from vgp.train.loop.optimizers import Optimizers

#: Steps along the gradient, in lengths of it, of which one must lower the loss.
STEPS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
#: Share of the first loss by which it must fall; contradictory rows may not allow more.
LEARNED = 0.5

Loss: TypeAlias = "Callable[[nn.Module, Batch], Tensor]"


class Failed(AssertionError):
    """A part of a task breaks a rule; the message has the value, the rule, and where to look."""


def require(holds: bool, message: str) -> None:
    if not holds:
        raise Failed(message)


def gradients(make: Callable[[], nn.Module], loss_of: Loss, batch: "Batch") -> dict[str, float]:
    """Returns the norm of each parameter's gradient on one batch.

    Args:
        make: Creates a model with equal weights at each call.

    Raises:
        Failed: a gradient is missing or not finite, all are 0, or no step against them lowers the loss.
    """
    model = make().eval()
    weights = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}
    require(bool(weights), "the model has no parameters to learn.")
    loss = loss_of(model, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    missing = [name for name, weight in weights.items() if weight.grad is None]
    require(not missing, f"the loss does not use {_list_names(missing)}: are these parts of the model left out of it?")
    slopes = {name: weight.grad for name, weight in weights.items() if weight.grad is not None}
    norms = {name: float(slope.norm()) for name, slope in slopes.items()}
    broken = [name for name, norm in norms.items() if not np.isfinite(norm)]
    require(not broken, f"the gradient of {_list_names(broken)} is not finite: look for sqrt(0), log(0) or 0/0.")
    length = sum(norm**2 for norm in norms.values()) ** 0.5
    require(length > 0, "every gradient is 0: is the output cut off from the weights (detach, argmax)?")
    require(
        any(_after(make, loss_of, batch, slopes, step / length) < float(loss.detach()) for step in STEPS),
        "no step against the gradient lowers the loss: does it depend on more than weights and batch, or is its sign "
        "wrong?",
    )
    return norms


def _after(
    make: Callable[[], nn.Module], loss_of: Loss, batch: "Batch", slopes: Mapping[str, Tensor], step: float
) -> float:
    """Returns the loss of a new model after one step of every weight against its gradient."""
    model = make().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name in slopes:
                weight.sub_(slopes[name], alpha=step)
    return float(loss_of(model, batch).detach())


def overfit(model: nn.Module, loss_of: Loss, batch: "Batch", optimizer: Optimizers, steps: int) -> list[float]:
    """Trains on the same few rows; returns the loss of each step.

    Raises:
        Failed: the loss fell by less than half.
    """
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(loss.detach()))
    first, best, rows = losses[0], min(losses), len(next(iter(batch.values())))
    require(
        best < first - LEARNED * abs(first),
        f"{steps} steps on {rows} rows lowered the loss only from {first:.4g} to {best:.4g}. A model that cannot "
        "overfit a few rows has an error or too few weights, or rows with equal features have different labels. If it "
        "needs other values, use overfit(steps=..., learning_rate=...).",
    )
    return losses


def _list_names(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
