"""What one row of the data is to the hardware, as a task tells it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    """What one row of the data is to the hardware."""

    #: What throughput is counted in, and how many of it a row is.
    unit: str = "samples"
    units_per_row: int = 1
    #: Floating-point operations of training on one row, forward and backward; 0 = not known, and no MFU is shown.
    flops_per_row: float = 0.0
