"""Mean and quantiles of a number as the outputs of a network, and their loss.

Legend: B rows, Q quantiles; the first of the 1 + Q outputs is the mean.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from vgp.protocol.manifest import Column

#: A normal distribution's quartiles lie so many deviations apart.
QUARTILES_APART = 1.349


class QuantileHead(nn.Module):
    """Raw outputs (B, 1 + Q) of a network -> mean and quantiles in the label's units, float64 (B, 1 + Q).

    The mean is counted from the train label's mean in its standard deviations, quantiles from its median in what the
    deviation would be if the middle half were a normal distribution's: a few huge labels widen the first unit, which
    squared errors need, and leave the second alone, so that quantiles of all other rows are still learned.

    The middle quantile is an output of its own; each next one lies above or below it by softplus of another. So they
    rise by construction, for every row and all weights, and the loss is of what is delivered, where sorting would
    train an output for another quantile than it was meant for.
    """

    centre: Tensor
    scale: Tensor

    def __init__(self, label: Column, quantiles: int):
        super().__init__()
        median, quartiles = label.quantiles[10], label.quantiles[15] - label.quantiles[5]
        spread = label.std or 1.0
        robust = quartiles / QUARTILES_APART or spread
        exact = torch.float64
        self.register_buffer("centre", torch.tensor([label.mean] + [median] * quantiles, dtype=exact))
        self.register_buffer("scale", torch.tensor([spread] + [robust] * quantiles, dtype=exact))

    def forward(self, raw: Tensor) -> Tensor:
        mean_B1, raw_BQ = raw[:, :1], raw[:, 1:]
        middle = raw_BQ.shape[1] // 2
        middle_B1 = raw_BQ[:, middle : middle + 1]
        below = softplus(raw_BQ[:, :middle]).flip(1).cumsum(1).flip(1)
        above = softplus(raw_BQ[:, middle + 1 :]).cumsum(1)
        standard = torch.cat([mean_B1, middle_B1 - below, middle_B1, middle_B1 + above], dim=1)
        return standard.double() * self.scale + self.centre


def quantile_loss(predicted: Tensor, scale: Tensor, label_B: Tensor, quantiles: Sequence[float]) -> Tensor:
    """Mean pinball loss of the quantiles plus half the squared error of the mean, in standard units; float32 scalar.

    Each is the proper loss of what it trains (Gneiting & Raftery 2007, section 6.1,
    https://doi.org/10.1198/016214506000001437); they weigh alike, since for the best constant prediction of a normal
    label both are near a half: 0.5 of the square, 0.4 of the median's pinball loss.

    Args:
        predicted: Mean and quantiles in the label's units, float64 (B, 1 + Q).
        scale: What each output is counted in, float64 (1 + Q,).
        label_B: float (B,).
    """
    error = ((label_B.double()[:, None] - predicted) / scale).float()
    share = torch.tensor(quantiles, device=error.device)
    pinball = torch.maximum(share * error[:, 1:], (share - 1) * error[:, 1:])
    return pinball.mean() + error[:, 0].square().mean() / 2
