"""The sizes of a transformer, which follow from its depth, and the operations of training on a row.

Imports no torch, so that a machine without it can compare two models.

Legend: D width, H heads, K width of a head, T positions, L depth, V vocabulary.
"""

import math
from dataclasses import dataclass, replace

#: The width that a layer adds to the model, as in nanochat (scripts/base_train.py).
WIDTH_PER_LAYER = 64
#: The possible widths of a head. Attention kernels are fastest at 128, where a matrix product fills the tensor cores of
#: a GPU; narrow models need more heads instead.
HEAD_WIDTHS = (64, 128)
#: From this depth on (width 768), heads are 128 wide, as in nanochat at every depth.
WIDE_HEADS_FROM = 12


def head_width(depth: int) -> int:
    """Returns the width of a head in a new model: 128 from depth 12 on if it divides the model's width, else 64."""
    narrow, wide = HEAD_WIDTHS
    return wide if depth >= WIDE_HEADS_FROM and WIDTH_PER_LAYER * depth % wide == 0 else narrow


@dataclass(frozen=True)
class Shape:
    """The sizes of a model."""

    depth: int
    vocab: int
    sequence_length: int
    #: The default is that of models that do not store the width.
    head_width: int = HEAD_WIDTHS[0]

    def __post_init__(self) -> None:
        if self.head_width not in HEAD_WIDTHS or self.width % self.head_width:
            raise ValueError(
                f"head_width={self.head_width!r}: {' or '.join(map(str, HEAD_WIDTHS))}, and a divisor of the width "
                f"{self.width}, which is {WIDTH_PER_LAYER} times depth={self.depth}."
            )

    @property
    def width(self) -> int:
        return WIDTH_PER_LAYER * self.depth

    @property
    def heads(self) -> int:
        return self.width // self.head_width

    @property
    def hidden(self) -> int:
        """Width of the SwiGLU: 8/3 of the width has as many parameters as a plain layer of 4 widths (Shazeer 2020)."""
        return math.ceil(self.width * 8 / 3 / 64) * 64

    @property
    def parameters(self) -> int:
        """Exact number of trainable parameters."""
        block = 4 * self.width**2 + 3 * self.width * self.hidden + 2 * self.width
        return self.vocab * self.width + self.depth * block + self.width

    @property
    def flops_per_row(self) -> float:
        """Floating-point operations of training on one row of T tokens, forward and backward.

        6 N + 12 L H K T a token: Chowdhery et al. 2022, appendix B (https://arxiv.org/abs/2204.02311). Attention
        counts in full though half of it is masked, as in the figures that others publish.
        """
        attention = 12 * self.depth * self.width * self.sequence_length
        return float(self.sequence_length * (6 * self.parameters + attention))


@dataclass(frozen=True)
class Workload:
    """The size and cost of one row of the data."""

    #: The unit of throughput, and the units of a row.
    unit: str = "samples"
    units_per_row: float = 1
    #: Floating-point operations of training on one row, forward and backward; 0 = unknown, and no MFU is shown.
    flops_per_row: float = 0.0
    #: Whether the weight of the task's loss counts the units, so that padding does not count.
    weighed: bool = False

    def filled(self, units_per_row: float) -> "Workload":
        """Returns the workload of rows with this mean number of units; operations on padding do not count."""
        share = units_per_row / self.units_per_row
        return replace(self, units_per_row=units_per_row, flops_per_row=self.flops_per_row * share)
