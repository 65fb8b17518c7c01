"""What one row of the data is to the hardware, as a task tells it."""

from dataclasses import dataclass, replace


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
