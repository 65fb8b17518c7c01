"""Which rung a step is on next: pure functions of what the launcher knows. No input, no output, no clock.

The starting point is Uniform Progress (Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines",
NSDI 2024, https://www.usenix.org/conference/nsdi24/presentation/wu-zhanghao), with its rules by their names: *thrifty*
(nothing runs when the work is done), *safety net* (without a job, and no more time than on demand and two change-overs
take: on demand until the end), *exploitation* (a Spot machine is kept until it is taken away), *hysteresis* (back from
on demand only where the change-overs fit). What is different here, and why:

- The paper sees at any time whether there is a Spot machine. Vertex AI tells it only to those who ask, by a job that
  waits, is refused or runs. So refusals and grants are all that is known (`Record`), a rung that refused is asked again
  after a while that doubles (`_pause_s`), and while a job trains on demand, Spot is looked at by a *probe*: a job with
  the machines of the rung and nothing to do, which ends by itself, costs some minutes of Spot at most, and stops no
  training. Only when it got its machines does the training move.
- The paper spends its slack evenly. Here slack is spent first, down to a reserve, for on demand that is bought early
  is often not needed later; the reserve is what the change-overs to come will take (`_reserve_s`).
- Several rungs: each does work at its own `speed`; what counts is the price of work, and those that may be taken away
  or that may let one wait are cheaper places to be, while those that stay (`standard`, `reservation`) are the net.
- On demand can be refused too. Nobody can promise a deadline then. So the net has room for a refusal by each such
  rung, more where one has refused before, and a machine on demand that was hard to get is not given up.

What is promised: if the fastest rung on demand gives its machines when it is asked, and a change-over takes no longer
than its `change_over_s`, the work is done by the deadline wherever on demand from the first moment would have done it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

Strategy = Literal["standard", "spot", "flex_start", "reservation"]

#: How often a situation is looked at while a job runs, and the least and most that is waited after a refusal, seconds.
LOOK_S, SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 300.0, 120.0, 1800.0
#: A launcher is late by a call or two: this much is never counted on, seconds.
MARGIN_S = 120.0
#: How long a rung that gives no machine takes to say so, seconds; a Spot job that waits longer has been refused.
REFUSAL_S, PATIENCE_S = 300.0, 600.0
#: A Spot machine's life before anything is known of it, seconds: as if one had been lost after so long.
PRIOR_LIFE_S = 2 * 3600.0
#: A probe that got its machines counts for so long, seconds.
FRESH_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Offer:
    """A rung, as far as a choice goes by it; `index` is its place in the ladder."""

    index: int
    strategy: Strategy
    #: Of all machines of the job together; None where no price is known.
    usd_per_hour: float | None = None
    #: Work of an hour on it; the first rung's is 1.
    speed: float = 1.0
    #: How long the cloud looks for machines before it gives up; None: it says so at once, or nobody knows.
    max_wait_s: float | None = None
    #: From the end of another job until this one trains where that stopped, once there are machines.
    change_over_s: float = 600.0

    @property
    def stays(self) -> bool:
        """Whether its machines are never taken away."""
        return self.strategy != "spot"

    @property
    def is_net(self) -> bool:
        """Whether it is there when everything else fails: machines that stay, without a queue."""
        return self.strategy in ("standard", "reservation")


@dataclass(frozen=True, kw_only=True)
class Record:
    """What a rung has shown so far; times in seconds on the clock of `Situation.now_s`, oldest first."""

    #: When a job or a probe was refused: stockout, expired wait, quota.
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
    #: The rung that the present job is on, whether it waits or runs; None: there is no job.
    on: int | None = None
    #: Whether that job has its machines.
    running: bool = False
    #: When it was created.
    asked_s: float | None = None
    #: One for every offer, in their order.
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

    `rung` is where the job belongs: the present one (stay), another (end the job, which saves, and create one there),
    or None (no job; none exists then). `probe` is a rung to send a probe to beside the present job.
    """

    rung: int | None
    look_again_s: float
    why: str
    probe: int | None = field(default=None)


def decide(situation: Situation, offers: Sequence[Offer]) -> Choice:
    """What to do now; the same for the same situation. To be asked when anything ends, and after `look_again_s`.

    Raises:
        ValueError: there is no offer, or not a record for each.
    """
    if not offers:
        raise ValueError("A ladder has at least one rung.")
    records = situation.records or tuple(Record() for _ in offers)
    if len(records) != len(offers):
        raise ValueError(f"{len(records)} records for {len(offers)} rungs: each has one.")
    view = _View(situation, tuple(offers), records)
    if situation.on is None:
        return _without_job(view)
    return _running(view) if situation.running else _waiting(view)


@dataclass(frozen=True)
class _View:
    situation: Situation
    offers: tuple[Offer, ...]
    records: tuple[Record, ...]

    @property
    def left_s(self) -> float:
        deadline = self.situation.deadline_s
        return inf if deadline is None else deadline - self.situation.now_s

    def work_s(self, offer: Offer) -> float:
        """How long the remaining work takes on a rung."""
        return self.situation.work_left_s / offer.speed

    @property
    def nets(self) -> list[Offer]:
        """The rungs on demand, the soonest to finish first; without any, those that stay, after their wait."""
        nets = [offer for offer in self.offers if offer.is_net] or [offer for offer in self.offers if offer.stays]
        return sorted(nets, key=lambda offer: (self.net_s(offer), offer.index))

    def net_s(self, offer: Offer) -> float:
        """How long it takes to finish on a rung on demand that nobody is on, with one refusal if it has refused."""
        queue = 0.0 if offer.is_net else offer.max_wait_s or 0.0
        refusals = REFUSAL_S * min(len(self.records[offer.index].refused_s), 3)
        return queue + refusals + offer.change_over_s + self.work_s(offer) + MARGIN_S

    @property
    def slack_s(self) -> float:
        """How long nothing may happen until on demand is needed to finish in time; infinite without a net."""
        nets = self.nets
        return self.left_s - self.net_s(nets[0]) if nets else inf

    def price(self, offer: Offer) -> float:
        """Of the work of an hour at speed 1; unknown prices follow the order of the ladder, after all known ones."""
        return inf if offer.usd_per_hour is None else offer.usd_per_hour / offer.speed

    @property
    def by_price(self) -> list[Offer]:
        return sorted(self.offers, key=lambda offer: (self.price(offer), offer.index))

    def life_s(self, offer: Offer) -> float:
        """How long its machines are kept, on average: what was seen, and one life of `PRIOR_LIFE_S`."""
        record = self.records[offer.index]
        return inf if offer.stays else (record.held_s + PRIOR_LIFE_S) / (len(record.preempted_s) + 1)

    def open_in_s(self, offer: Offer) -> float:
        """How long until a rung that refused is asked again."""
        record = self.records[offer.index]
        if not record.refused_s:
            return 0.0
        since = max(record.granted_s, default=-inf)
        refusals = sum(1 for at in record.refused_s if at > since)
        if not refusals:
            return 0.0
        pause = min(SHORTEST_PAUSE_S * 2.0 ** min(refusals - 1, 10), LONGEST_PAUSE_S)
        return max(record.refused_s[-1] + pause - self.situation.now_s, 0.0)

    def entry_s(self, offer: Offer) -> float:
        """The slack that trying a rung may take: to be refused or queued, to start, and to lose what is not saved."""
        if offer.is_net:
            return 0.0
        slower = self.work_s(offer) - self.work_s(self.nets[0]) if self.nets else 0.0
        lost = 0.0 if offer.stays else self.situation.at_risk_s
        return REFUSAL_S + offer.change_over_s + lost + (max(slower, 0.0) if offer.stays else 0.0)


def _without_job(view: _View) -> Choice:
    if view.situation.deadline_s is None:
        return _next_in_order(view)
    slack = view.slack_s
    for offer in view.by_price:
        if not offer.is_net and not view.open_in_s(offer) and view.entry_s(offer) <= slack:
            return Choice(rung=offer.index, look_again_s=_look(view), why=_why(view, "the cheapest that can be tried"))
    soonest = min((view.open_in_s(offer) for offer in view.offers if not offer.is_net), default=inf)
    reserve = max((view.entry_s(offer) for offer in view.offers if not offer.is_net), default=inf)
    if slack - soonest > reserve:
        return Choice(rung=None, look_again_s=max(soonest, 1.0), why=_why(view, "cheap rungs have refused; wait"))
    return _net(view)


def _next_in_order(view: _View) -> Choice:
    for offer in view.offers:
        if not view.open_in_s(offer):
            return Choice(rung=offer.index, look_again_s=LOOK_S, why="no deadline: the first rung that may be asked.")
    soonest = min(view.open_in_s(offer) for offer in view.offers)
    return Choice(rung=None, look_again_s=max(soonest, 1.0), why="no deadline, and every rung has just refused.")


def _net(view: _View) -> Choice:
    in_time = [offer for offer in view.offers if offer.is_net and view.net_s(offer) <= view.left_s]
    ready = [offer for offer in in_time if not view.open_in_s(offer)]
    for offer in sorted(ready, key=lambda offer: (view.price(offer), offer.index)):
        return Choice(rung=offer.index, look_again_s=LOOK_S, why=_why(view, "on demand is needed to finish in time"))
    for offer in sorted(view.offers, key=lambda offer: (view.open_in_s(offer), view.work_s(offer), offer.index)):
        wait = view.open_in_s(offer)
        if wait:
            return Choice(rung=None, look_again_s=max(wait, 1.0), why=_why(view, "every rung has just refused"))
        return Choice(rung=offer.index, look_again_s=LOOK_S, why=_why(view, "late: the rung that may be asked first"))
    raise AssertionError("a ladder has rungs")


def _waiting(view: _View) -> Choice:
    situation, offer = view.situation, view.offers[view.situation.on or 0]
    waited = situation.now_s - (situation.asked_s if situation.asked_s is not None else situation.now_s)
    if not offer.is_net and view.slack_s <= 0:
        choice = _net(view)
        if choice.rung is not None:
            return choice
    return Choice(rung=offer.index, look_again_s=_look(view), why=_why(view, f"asked {waited / 60:.0f} minutes ago"))


def _running(view: _View) -> Choice:
    offer = view.offers[view.situation.on or 0]
    return Choice(rung=offer.index, look_again_s=_look(view), why=_why(view, "it trains"))


def _look(view: _View) -> float:
    return max(min(LOOK_S, view.slack_s), 5.0)


def _why(view: _View, words: str) -> str:
    if view.situation.deadline_s is None:
        return f"{words}; no deadline."
    return f"{words}; {view.left_s / 3600:.1f} h to the deadline, {view.slack_s / 3600:.1f} h of slack."
