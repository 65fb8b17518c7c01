"""What the launcher's policy is held against.

`UniformProgress` is the policy of "Can't Be Late" (Wu et al., NSDI 2024, section 4.3) as it is written there: behind
the line work x time / deadline it goes on demand, on Spot it stays, on demand it stays until there is Spot and it is so
far ahead that two change-overs still leave it on the line (hysteresis; `hysteresis=False` goes at once), and at the
safety net it goes on demand for good. Where it cannot see the supply, it asks and probes as ours does.
"""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.capacity.simulation import Sight
from vgp.inside.capacity.policy import Choice, Offer, Situation, decide

#: How often a rival looks where nothing happens: in the paper's simulator every ten minutes.
TICK_S = 120.0
#: Without sight: how long after a refusal Spot is asked, and probed, again.
ASK_S, PROBE_S = 120.0, 900.0


def ours(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    if sight is not None:
        situation = told(situation, sight)
    return decide(situation, offers)


def told(situation: Situation, sight: Sequence[bool]) -> Situation:
    """The situation of a launcher that sees the supply: as if every rung had just been asked."""
    now = (situation.now_s,)
    records = tuple(
        replace(record, granted_s=record.granted_s + now)
        if there
        else replace(record, refused_s=record.refused_s + now)
        for record, there in zip(situation.records, sight, strict=True)
    )
    return replace(situation, records=records)


def on_demand(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    return Choice(rung=_net(offers), look_again_s=86_400.0, why="")


def fails(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    """Spot, until it fails: then the run has failed."""
    lost = any(record.refused_s or record.preempted_s for record in situation.records)
    return Choice(rung=None if lost else 0, look_again_s=1e12 if lost else 86_400.0, why="")


def switches(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    """Spot, until it fails for the first time: then on demand."""
    lost = any(record.refused_s or record.preempted_s for record in situation.records)
    return Choice(rung=_net(offers) if lost else 0, look_again_s=86_400.0, why="")


def greedy(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    """The paper's greedy: Spot whenever there is one, until the safety net."""
    if situation.on is not None and offers[situation.on].is_net:
        return Choice(rung=situation.on, look_again_s=86_400.0, why="")
    if _at_net(situation, offers):
        return Choice(rung=_net(offers), look_again_s=TICK_S, why="")
    return Choice(rung=_spot(situation, offers, sight), look_again_s=TICK_S, why="")


class UniformProgress:
    """See above; one object a job, for its line begins where the job did."""

    def __init__(self, hysteresis: bool = True) -> None:
        self.work_s, self.hysteresis = 0.0, hysteresis

    def __call__(self, situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
        self.work_s = self.work_s or situation.work_left_s
        on, net = situation.on, _net(offers)
        if on is not None and on != net and situation.running:
            return Choice(rung=on, look_again_s=TICK_S, why="")  # exploitation
        if _at_net(situation, offers):
            return Choice(rung=net, look_again_s=TICK_S, why="")
        if on == net:
            return self._back(situation, offers, sight, net)
        spot = _spot(situation, offers, sight)
        if self._ahead(situation, 0.0) < 0 and not (sight is not None and spot is not None):
            return Choice(rung=net, look_again_s=TICK_S, why="")
        return Choice(rung=spot, look_again_s=TICK_S, why="")

    def _back(self, situation: Situation, offers: Sequence[Offer], sight: Sight, net: int) -> Choice:
        if self.hysteresis and self._ahead(situation, 2 * offers[net].change_over_s) < 0:
            return Choice(rung=net, look_again_s=TICK_S, why="")
        if sight is not None:
            spot = _spot(situation, offers, sight)
            return Choice(rung=net if spot is None else spot, look_again_s=TICK_S, why="")
        now = situation.now_s
        for offer in offers:
            record = situation.records[offer.index]
            granted = max(record.granted_s, default=-1e9)
            if offer.index != net and now - granted <= TICK_S and granted > (situation.asked_s or 0.0):
                return Choice(rung=offer.index, look_again_s=TICK_S, why="")
        probe = None
        if situation.probing is None:
            asked = {o.index: max((*situation.records[o.index].refused_s[-1:], -1e9)) for o in offers if o.index != net}
            oldest = min(asked, key=lambda index: (asked[index], index))
            probe = oldest if now - asked[oldest] >= PROBE_S else None
        return Choice(rung=net, look_again_s=TICK_S, why="", probe=probe)

    def _ahead(self, situation: Situation, later_s: float) -> float:
        """Work done beyond the line, as the line stands `later_s` from now."""
        assert situation.deadline_s is not None
        done = self.work_s - situation.work_left_s
        return done - (situation.now_s + later_s) * self.work_s / situation.deadline_s


def _net(offers: Sequence[Offer]) -> int:
    return next(offer.index for offer in offers if offer.is_net)


def _at_net(situation: Situation, offers: Sequence[Offer]) -> bool:
    assert situation.deadline_s is not None
    needed = situation.work_left_s + 2 * offers[_net(offers)].change_over_s + situation.at_risk_s + TICK_S
    if situation.on is not None and not offers[situation.on].is_net and situation.running:
        return False  # kept until it is taken away
    return situation.deadline_s - situation.now_s <= needed


def _spot(situation: Situation, offers: Sequence[Offer], sight: Sight) -> int | None:
    """The Spot rung to be on: the one there is, or the one to ask."""
    on = situation.on
    if on is not None and not offers[on].is_net:
        return on
    spots = [offer.index for offer in offers if not offer.is_net]
    if sight is not None:
        return next((index for index in spots if sight[index]), None)
    refused = {index: max((*situation.records[index].refused_s[-1:], -1e9)) for index in spots}
    oldest = min(spots, key=lambda index: (refused[index], index))
    return oldest if situation.now_s - refused[oldest] >= ASK_S else None
