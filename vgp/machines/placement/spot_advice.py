"""An advice of Compute Engine on Spot machines in one region, and the rank that a ladder gives it.

The advice is a prior: a score of 0.9 was reported on a day without machines (cilium/cilium issue 48184).
"""

from dataclasses import dataclass

from vgp.base.documents.json_text import JsonObject
from vgp.base.text.figures import format_duration, number

#: Limits of Google's classes: high from 0.7, low below 0.4.
#: https://docs.cloud.google.com/compute/docs/instances/view-vm-availability, read on 2026-11-24.
_HIGH, _LOW = 0.7, 0.4


@dataclass(frozen=True)
class SpotAdvice:
    """How likely Spot machines of one type are in a region, and how long they last."""

    #: Likelihood of getting all machines now, from 0 to 1.
    obtainability: float
    #: Seconds that most of the machines run at least; None if unknown.
    uptime_s: float | None = None
    #: Share of stopped Spot machines that were preempted, on the last recorded day; None if unknown.
    preemption_rate: float | None = None

    @property
    def rank(self) -> int:
        """Returns 0 for a high score, 1 for a medium one and 2 for a low one; no advice ranks as medium."""
        return 0 if self.obtainability >= _HIGH else 1 if self.obtainability >= _LOW else 2

    def __str__(self) -> str:
        parts = [f"obtainability {number(self.obtainability)} of 1"]
        parts += [f"most run for {format_duration(self.uptime_s)}"] if self.uptime_s else []
        if self.preemption_rate is not None:
            parts.append(f"{100 * self.preemption_rate:.0f} % of those that stopped were preempted")
        return ", ".join(parts)


def rank_of(advice: SpotAdvice | None) -> int:
    return 1 if advice is None else advice.rank


def read_advice(capacity: JsonObject, history: JsonObject) -> SpotAdvice | None:
    """Reads CapacityAdviceResponse and CapacityHistoryResponse; returns None if Google recommends nothing."""
    recommendations = capacity.get("recommendations") or [{}]
    scores = recommendations[0].get("scores", {})
    if "obtainability" not in scores:
        return None
    records = sorted(history.get("preemptionHistory", ()), key=lambda record: record["interval"]["endTime"])
    uptime = scores.get("estimatedUptime")
    return SpotAdvice(
        float(scores["obtainability"]),
        float(uptime.removesuffix("s")) if uptime else None,
        records[-1].get("preemptionRate", 0.0) if records else None,
    )
