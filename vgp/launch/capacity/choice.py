"""What a choice of a rung depends on, and the choice: values of policy.py."""

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["standard", "spot", "flex_start", "reservation"]


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A rung, as far as a choice goes by it; `index` is its place in the sequence that `decide` is given."""

    index: int
    strategy: Strategy
    #: Of all machines of the job together; None where no price is known.
    usd_per_hour: float | None = None
    #: Work of an hour on it; the first rung's is 1.
    speed: float = 1.0
    #: How long the cloud looks for machines before it gives up; None: nobody knows.
    max_wait_s: float | None = None
    #: From the end of another job until this one trains where that stopped, waiting for machines not counted.
    change_over_s: float = 600.0

    @property
    def stays(self) -> bool:
        """Whether its machines are never taken away."""
        return self.strategy != "spot"

    @property
    def is_net(self) -> bool:
        """Whether it is there when all else fails: machines that stay, without a queue."""
        return self.strategy in ("standard", "reservation")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a rung has shown so far; times in seconds on the clock of `Situation.now_s`, oldest first."""

    #: When a job or a probe got no machines: stockout, expired wait, quota, or left while it waited.
    refused_s: tuple[float, ...] = ()
    #: When a job or a probe got its machines.
    granted_s: tuple[float, ...] = ()
    #: When machines were taken away.
    preempted_s: tuple[float, ...] = ()
    #: How long jobs have had machines of it, in all.
    held_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that a choice depends on; times in seconds on one clock."""

    now_s: float
    deadline_s: float | None
    #: From the newest checkpoint to the end, in seconds on a rung of speed 1; unknown: the whole timeout.
    work_left_s: float
    #: The rung that the present job is on, whether it waits or has machines; None: there is no job.
    on: int | None = None
    #: Whether that job has its machines.
    running: bool = False
    #: When it was created.
    asked_s: float | None = None
    #: One for every offer, in their order; empty: nothing has been asked.
    records: tuple[Record, ...] = ()
    #: Work that is lost at most when machines are taken away, in seconds: the checkpoints' interval.
    at_risk_s: float = 0.0
    #: The rung of a probe that has not ended.
    probing: int | None = None
    #: Whether the launcher can send probes.
    can_probe: bool = True


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What to do now.

    `rung` is where the job belongs: the present one (stay), another (end the present job, which saves, and create one
    there), or None (no job; only where there is none). `probe` is a rung to send a probe to beside the present job.
    `why` is a sentence for the log.
    """

    rung: int | None
    look_again_s: float
    why: str
    probe: int | None = None
