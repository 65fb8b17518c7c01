"""The policies with which the launcher's policy is compared.

`UniformProgress` is the policy of "Can't Be Late" (Wu et al., NSDI 2024, section 4.3): behind the line work x time /
deadline it goes on demand. On Spot it stays. On demand it stays until there is Spot and it is so far ahead that two
change-overs still leave it on the line (hysteresis; `hysteresis=False` changes at once). At the safety net it goes on
demand for good. Without sight it requests machines as our policy does, also beside a job on demand.
"""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.capacity.simulation import Sight
from vgp.launch.capacity.policy import Choice, Offer, Situation, decide

#: The delay that a rival's launcher allows for.
TICK_S = 120.0
FOREVER_S = 1e9
#: Without sight: seconds between a refusal and the next request of Spot, without a job and beside one on demand.
ASK_S, BESIDE_S = 120.0, 900.0


def ours(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    if sight is None:
        return decide(situation, offers)
    choice = decide(add_sight(situation, sight), offers)
    trains = situation.running and choice.rung == situation.on  # only a change of the supply can then change the choice
    return replace(choice, look_again_s=FOREVER_S, beside=None) if trains else choice


def add_sight(situation: Situation, sight: Sequence[bool]) -> Situation:
    """Returns the situation of a launcher that sees the supply, as if every rung had just been requested."""
    now = situation.now_s
    records = tuple(
        replace(record, granted_s=(*record.granted_s[-1:], now)) if there else replace(record, refused_s=(now,) * 10)
        for record, there in zip(situation.records, sight, strict=True)
    )
    there = next((index for index, seen in enumerate(sight) if seen and index != situation.on), None)
    return replace(situation, records=records, next_on=there, next_running=there is not None)


def on_demand(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    return Choice(rung=_net(offers), look_again_s=FOREVER_S, why="")


def fails(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    """Uses Spot; the run fails with the first preemption."""
    lost = any(record.refused_s or record.preempted_s for record in situation.records)
    return Choice(rung=None if lost else 0, look_again_s=FOREVER_S if lost else FOREVER_S, why="")


def switches(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    """Uses Spot until the first preemption, then on demand."""
    lost = any(record.refused_s or record.preempted_s for record in situation.records)
    return Choice(rung=_net(offers) if lost else 0, look_again_s=FOREVER_S, why="")


def greedy(situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
    """Uses Spot whenever there is any, until the safety net: the paper's greedy policy."""
    on = situation.on
    if on is not None and (offers[on].is_net or situation.running):
        return Choice(rung=on, look_again_s=FOREVER_S, why="")
    if (left_s := _to_net_s(situation, offers)) <= 0:
        return Choice(rung=_net(offers), look_again_s=FOREVER_S, why="")
    return Choice(rung=_spot(situation, offers, sight), look_again_s=_until(sight, left_s), why="")


class UniformProgress:
    """The policy Uniform Progress; one object for each job, because its line begins with the job."""

    def __init__(self, hysteresis: bool = True) -> None:
        self.work_s, self.hysteresis = 0.0, hysteresis

    def __call__(self, situation: Situation, offers: Sequence[Offer], sight: Sight) -> Choice:
        self.work_s = self.work_s or situation.work_left_s
        on, net = situation.on, _net(offers)
        if on is not None and on != net and situation.running:
            return Choice(rung=on, look_again_s=FOREVER_S, why="")  # exploitation
        left_s = _to_net_s(situation, offers)
        if left_s <= 0:
            return Choice(rung=net, look_again_s=FOREVER_S, why="")
        if on == net:
            return self._back(situation, offers, sight, net)
        spot, ahead_s = _spot(situation, offers, sight), self._ahead_s(situation, 0.0)
        if ahead_s < 0 and not (sight is not None and spot is not None):
            return Choice(rung=net, look_again_s=TICK_S, why="")
        line_s = ahead_s / self._rate(situation) if ahead_s >= 0 else FOREVER_S
        return Choice(rung=spot, look_again_s=_until(sight, min(left_s, line_s)), why="")

    def _back(self, situation: Situation, offers: Sequence[Offer], sight: Sight, net: int) -> Choice:
        behind_s = -self._ahead_s(situation, 2 * offers[net].change_over_s)
        if self.hysteresis and behind_s > 0:
            return Choice(rung=net, look_again_s=behind_s / (1 - self._rate(situation)) + 1, why="")
        if sight is not None:
            spot = _spot(replace(situation, on=None), offers, sight)
            return Choice(rung=net if spot is None else spot, look_again_s=FOREVER_S, why="")
        return self._asking(situation, offers, net)

    def _asking(self, situation: Situation, offers: Sequence[Offer], net: int) -> Choice:
        if situation.next_on is not None:
            to = situation.next_on if situation.next_running else net
            return Choice(rung=to, look_again_s=TICK_S, why="", beside=situation.next_on)
        oldest, refused_s = _longest_ago(situation, [offer.index for offer in offers if offer.index != net])
        due_s = refused_s + BESIDE_S - situation.now_s
        return Choice(rung=net, look_again_s=max(due_s, TICK_S), why="", beside=oldest if due_s <= 0 else None)

    def _rate(self, situation: Situation) -> float:
        assert situation.deadline_s is not None
        return self.work_s / situation.deadline_s

    def _ahead_s(self, situation: Situation, later_s: float) -> float:
        """Returns the work done beyond the line, as the line will be in `later_s`."""
        done = self.work_s - situation.work_left_s
        return done - (situation.now_s + later_s) * self._rate(situation)


def _until(sight: Sight, left_s: float) -> float:
    """Returns seconds until the next look without a job: with sight after the safety net, else at most `ASK_S`."""
    return left_s + 1 if sight is not None else min(left_s + 1, ASK_S)


def _net(offers: Sequence[Offer]) -> int:
    return next(offer.index for offer in offers if offer.is_net)


def _to_net_s(situation: Situation, offers: Sequence[Offer]) -> float:
    """Returns the seconds until the safety net."""
    assert situation.deadline_s is not None
    needed = situation.work_left_s + 2 * offers[_net(offers)].change_over_s + situation.at_risk_s + TICK_S
    return situation.deadline_s - situation.now_s - needed


def _longest_ago(situation: Situation, spots: Sequence[int]) -> tuple[int, float]:
    """Returns the rung with the oldest refusal, and the time of that refusal."""
    refused = {index: max((*situation.records[index].refused_s[-1:], -FOREVER_S)) for index in spots}
    oldest = min(spots, key=lambda index: (refused[index], index))
    return oldest, refused[oldest]


def _spot(situation: Situation, offers: Sequence[Offer], sight: Sight) -> int | None:
    """Returns the Spot rung to use: one that has machines, or the one to request."""
    on = situation.on
    if on is not None and not offers[on].is_net:
        return on
    spots = [offer.index for offer in offers if not offer.is_net]
    if sight is not None:
        return next((index for index in spots if sight[index]), None)
    oldest, refused_s = _longest_ago(situation, spots)
    return oldest if situation.now_s - refused_s >= ASK_S else None
