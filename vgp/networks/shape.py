"""What a model is to the hardware: a row of its data, and the sizes of a transformer, all from its depth.

No torch here, so that the desk can compare two models.

Legend: D width, H heads, K width of a head, T positions, L depth, V vocabulary.
"""

import math
from dataclasses import dataclass, replace

#: The width that a layer adds to the model, as in nanochat (scripts/base_train.py).
WIDTH_PER_LAYER = 64
#: The widths of a head that there are. The kernels of attention are fastest at 128, where a matrix product fills the
#: tensor cores of a GPU; narrower models need their heads more.
HEAD_WIDTHS = (64, 128)
#: From this depth on (width 768), heads are 128 wide, as in nanochat at every depth.
WIDE_HEADS_FROM = 12


def head_width(depth: int) -> int:
    """The width of a head in a new model: 128 from depth 12 on, where it divides the model's width; else 64."""
    narrow, wide = HEAD_WIDTHS
    return wide if depth >= WIDE_HEADS_FROM and WIDTH_PER_LAYER * depth % wide == 0 else narrow


@dataclass(frozen=True)
class Shape:
    """The sizes of a model."""

    depth: int
    vocab: int
    sequence_length: int
    #: Before it was chosen, heads had the first of `HEAD_WIDTHS`.
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
        """Width of the SwiGLU: 8/3 of the width has the parameters of a plain layer of 4 (Shazeer 2020), in 64s."""
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
    """What one row of the data is to the hardware."""

    #: What throughput is counted in, and how many of it a row is.
    unit: str = "samples"
    units_per_row: float = 1
    #: Floating-point operations of training on one row, forward and backward; 0 = not known, and no MFU is shown.
    flops_per_row: float = 0.0
    #: Whether the weight of the task's loss counts the units: what fills up a row is then none.
    weighed: bool = False

    def filled(self, units_per_row: float) -> "Workload":
        """The same of rows that hold so many units in the mean; operations on what fills them up do not count."""
        share = units_per_row / self.units_per_row
        return replace(self, units_per_row=units_per_row, flops_per_row=self.flops_per_row * share)
