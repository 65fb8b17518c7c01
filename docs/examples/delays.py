"""How many minutes late will a flight arrive? The flights of the shipped task, with the delay itself as the label."""

import ibis.expr.types as ir

from training.tasks.flights import Flights


class Delays(Flights):
    """A regression: the mean of the delay, and an interval that holds 80% of the delays, with its middle."""

    classes = ()
    quantiles = (0.1, 0.5, 0.9)
    unit = "minutes"

    def labels(self, rows: ir.Table) -> ir.NumericValue:
        """Below 0 is early; null where the flight was cancelled or diverted."""
        return rows.arr_delay
