"""Networks for tables, whose outputs are logits of classes, or the mean and quantiles of a number.

Legend: B rows, F numbers, K categories, E embedding widths in sum, C classes, Q quantiles; the first of the 1 + Q
outputs is the mean.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from vgp.protocol.manifest import Column


class TabularNetwork(nn.Module):
    """A multi-layer perceptron over embeddings of the categories and standardised numbers.

    Means and deviations of the train split are buffers, so that the model takes raw rows. A missing number is replaced
    by the mean, and a second input marks it as missing.
    """

    mean_F: Tensor
    scale_F: Tensor

    def __init__(
        self,
        columns: Sequence[Column],
        classes: int,
        *,
        hidden: Sequence[int],
        dropout: float,
        rare: int = 0,
        most_values: int = 0,
    ):
        """Builds the network. See `Grouped` for `rare` and `most_values`; rare=0 gives each value its own embedding."""
        super().__init__()
        numbers = [column for column in columns if column.kind == "number"]
        categories = [column for column in columns if column.kind == "category"]
        self.numbers = [column.name for column in numbers]
        self.categories = [column.name for column in categories]
        self.register_buffer("mean_F", torch.tensor([column.mean for column in numbers]))
        self.register_buffer("scale_F", torch.tensor([1 / max(column.std, 1e-6) for column in numbers]))
        embeddings = [
            Grouped(column, rare, most_values) if rare else nn.Embedding(len(column.values), _width(len(column.values)))
            for column in categories
        ]
        self.embeddings = nn.ModuleList(embeddings)
        width = 2 * len(numbers) + sum(embedding.embedding_dim for embedding in embeddings)
        layers: list[nn.Module] = []
        for size in hidden:
            layers += [nn.Linear(width, size), nn.LayerNorm(size), nn.SiLU(), nn.Dropout(dropout)]
            width = size
        self.layers = nn.Sequential(*layers, nn.Linear(width, classes))

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Returns logits (B, C) for a batch: float (B,) per number, integer codes (B,) per category."""
        logits: Tensor = self.layers(self.inputs(batch))
        return logits

    def inputs(self, batch: dict[str, Tensor]) -> Tensor:
        """Returns the inputs of the first layer, float (B, E + 2F)."""
        inputs = [layer(batch[name].long()) for name, layer in zip(self.categories, self.embeddings, strict=True)]
        if self.numbers:
            numbers_BF = torch.stack([batch[name].float() for name in self.numbers], dim=1)
            missing_BF = numbers_BF.isnan()
            standard_BF = ((numbers_BF - self.mean_F) * self.scale_F).masked_fill(missing_BF, 0).clamp(-8, 8)
            inputs += [standard_BF, missing_BF.float()]
        return torch.cat(inputs, dim=1)


class QuantileNetwork(TabularNetwork):
    """A tabular network for the mean and quantiles of a number.

    Its last layer computes in float32 even under autocast: with 8 bits of bfloat16 a price of 1,234 would be 1,232.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        label: Column,
        quantiles: int,
        *,
        hidden: Sequence[int],
        dropout: float,
        rare: int = 0,
        most_values: int = 0,
    ):
        super().__init__(columns, 1 + quantiles, hidden=hidden, dropout=dropout, rare=rare, most_values=most_values)
        self.head = QuantileHead(label, quantiles)

    def forward(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Returns the mean and quantiles in the label's units, float64 (B, 1 + Q), and their scales, (1 + Q,)."""
        hidden = self.inputs(batch)
        for layer in list(self.layers)[:-1]:
            hidden = layer(hidden)
        with torch.autocast(hidden.device.type, enabled=False):
            return self.head(self.layers[-1](hidden.float())), self.head.scale


class Grouped(nn.Module):
    """An embedding in which rare values of a category share a row with the values that the train split lacks.

    A value that first occurs after training thus gets the trained row of rare values instead of a random one.

    Args:
        column: The category, with `counts` of the train split.
        rare: Values with fewer rows are rare.
        most_values: The most values with a row of their own: the most frequent ones.
    """

    positions_V: Tensor

    def __init__(self, column: Column, rare: int, most_values: int):
        super().__init__()
        by_count = sorted(range(len(column.values)), key=lambda code: (-column.counts[code], code))
        kept = sorted(code for code in by_count[:most_values] if column.counts[code] >= rare)
        positions = torch.zeros(len(column.values), dtype=torch.int64)
        positions[torch.tensor(kept, dtype=torch.int64)] = torch.arange(1, len(kept) + 1)
        self.register_buffer("positions_V", positions)
        self.embedding_dim = _width(len(kept) + 1)
        self.table = nn.Embedding(len(kept) + 1, self.embedding_dim)
        with torch.no_grad():
            self.table.weight[0] = 0  # stays 0 if no value of the train split is rare

    def forward(self, codes_B: Tensor) -> Tensor:
        """Returns the embeddings, float (B, E)."""
        rows_BE: Tensor = self.table(self.positions_V[codes_B])
        return rows_BE


def _width(values: int) -> int:
    """Returns the embedding width for a number of values by fastai's rule, https://docs.fast.ai/tabular.model.html."""
    return min(64, int(round(1.6 * values**0.56)))


#: The distance between the quartiles of a normal distribution, in standard deviations.
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
    """Returns the mean pinball loss plus half the squared error of the mean, in standard units, a float32 scalar.

    Each is the proper loss of what it trains (Gneiting & Raftery 2007, section 6.1,
    https://doi.org/10.1198/016214506000001437); they weigh alike, since for the best constant prediction of a normal
    label both are near a half: 0.5 of the square, 0.4 of the median's pinball loss.

    Args:
        predicted: Mean and quantiles in the label's units, float64 (B, 1 + Q).
        scale: The unit of each output, float64 (1 + Q,).
        label_B: float (B,).
    """
    error = ((label_B.double()[:, None] - predicted) / scale).float()
    share = torch.tensor(quantiles).to(error.device, non_blocking=True)
    pinball = torch.maximum(share * error[:, 1:], (share - 1) * error[:, 1:])
    return pinball.mean() + error[:, 0].square().mean() / 2
