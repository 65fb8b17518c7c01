"""Which rung a step is on next: pure functions of what the launcher knows. No input, no output, no clock.

The starting point is Uniform Progress (Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines",
NSDI 2024, https://www.usenix.org/conference/nsdi24/presentation/wu-zhanghao), with its rules by their names: *thrifty*
(nothing runs when the work is done), *safety net* (without a job, and no more time than on demand and two change-overs
take: on demand until the end), *exploitation* (a Spot machine is kept until it is taken away), *hysteresis* (back from
on demand only where the change-overs fit). What is different here, and why:

- The paper sees at any time whether there is a Spot machine. Vertex AI shows it only to those who ask, by a job that
  waits, is refused or runs. So refusals and grants are all that is known (`Record`), and a rung that refused is asked
  again after a while that doubles. While a job trains on demand, the job that is to follow it waits for Spot machines
  beside it: it costs nothing until it has them, and then the training moves to it.
- The paper spends its slack evenly. Here it is spent on waiting for Spot first, down to a reserve of an eighth of the
  remaining work, for on demand that is bought early is often not needed later; the reserve lets the job go over to
  Spot and back until its end, which greedy policies cannot. Both figures:
  `benchmarks.capacity` (docs/internals/benchmarks.md).
- There are several rungs, each with a `speed`; what counts is the price of work. Those without a queue whose machines
  stay (`standard`, `reservation`) are the net: the cheapest that still finishes in time. Flex-start is queued for
  only while the net allows it, and is not left again, nor is a reservation.
- Going back is weighed: what a Spot machine is expected to save in its life, as seen so far, against the change-overs.
- On demand can be refused too, and nobody can promise a deadline then. Each refusal has the net drawn half an hour
  earlier (up to three times), so that such a machine is asked for early and not given up again; without one, the
  net's rungs and then every other are asked in turn, and the first machine is taken.

What is promised: the work is done by the deadline wherever on demand, from the first moment, would have done it with a
change-over and `MARGIN_S` to spare, if on demand gives its machines when it is asked, no change-over takes longer than
its `change_over_s`, the work is not more than was thought, and this is asked no later than `look_again_s` says.

Without a deadline the rungs are asked in their order, and round again after a pause that doubles.
"""

from collections.abc import Sequence
from math import inf

from vgp.launch.capacity.prospect import Choice, Offer, Prospect, Record, Situation, Strategy

__all__ = ["Choice", "Offer", "Record", "Situation", "Strategy", "decide"]

#: How often a situation is looked at while a job waits or runs, seconds.
LOOK_S = 300.0
#: How long a job may wait for machines, where the cloud says nothing and another rung could be asked, seconds.
PATIENCE_S = 900.0


def decide(situation: Situation, offers: Sequence[Offer]) -> Choice:
    """What to do now; the same for the same situation. To be asked when anything ends, and after `look_again_s`.

    Raises:
        ValueError: there is no offer, one is not at its place, or not every offer has its record.
    """
    records = situation.records or tuple(Record() for _ in offers)
    if not offers or [offer.index for offer in offers] != list(range(len(offers))):
        raise ValueError("A ladder has at least one rung, and the index of each is its place.")
    if len(records) != len(offers):
        raise ValueError(f"{len(records)} records for {len(offers)} rungs: each has one.")
    prospect = Prospect(situation, offers, records)
    if situation.on is None:
        return _without_job(prospect)
    offer = offers[situation.on]
    return _with_machines(prospect, offer) if situation.running else _waiting(prospect, offer)


def _choice(prospect: Prospect, rung: int | None, look_s: float, why: str, beside: int | None = None) -> Choice:
    if prospect.left_s < inf:
        slack = "" if prospect.slack_s == inf else f", {prospect.slack_s / 3600:.1f} h of slack"
        why = f"{why}; {prospect.left_s / 3600:.1f} h to the deadline{slack}"
    return Choice(rung=rung, look_again_s=max(min(look_s, LOOK_S), 5.0), why=f"{why}.", beside=beside)


def _without_job(prospect: Prospect) -> Choice:
    if prospect.left_s == inf:
        return _next_open(prospect, prospect.offers, "no deadline: the first rung in order that may be asked")
    net = prospect.net
    cheaper = [offer for offer in prospect.cheaper(net) if prospect.fits_s(offer) >= 0]
    for offer in cheaper:
        # The reserve is not spent on rungs that have just refused: of several, one could always be asked.
        if not prospect.open_in_s(offer) and (_spare_s(prospect, offer) > 0 or not prospect.failures(offer)):
            return _choice(prospect, offer.index, prospect.fits_s(offer), "the cheapest rung that may be asked")
    spare = max((_spare_s(prospect, offer) for offer in cheaper), default=0.0)
    if spare > 0:
        soonest = min(prospect.open_in_s(offer) for offer in cheaper)
        return _choice(prospect, None, min(soonest, spare), "wait until a cheaper rung may be asked again")
    return _on_demand(prospect, "on demand to be in time")


def _spare_s(prospect: Prospect, offer: Offer) -> float:
    """How long a rung may be waited for without a job that trains."""
    wait = prospect.slack_s - prospect.entry_s(offer) - prospect.reserve_s(offer)
    return min(prospect.fits_s(offer), wait) if prospect.net else inf


def _on_demand(prospect: Prospect, why: str) -> Choice:
    net = prospect.net
    if net and not prospect.open_in_s(net):
        return _choice(prospect, net.index, LOOK_S, why)
    order = sorted(prospect.offers, key=lambda offer: (not offer.is_net, prospect.work_s(offer), offer.index))
    return _next_open(prospect, order, f"{why}, where it has just been refused")


def _next_open(prospect: Prospect, order: Sequence[Offer], why: str) -> Choice:
    for offer in order:
        if not prospect.open_in_s(offer):
            return _choice(prospect, offer.index, LOOK_S, why)
    soonest = min(prospect.open_in_s(offer) for offer in order)
    return _choice(prospect, None, soonest, f"{why}: every rung has just refused")


def _waiting(prospect: Prospect, on: Offer) -> Choice:
    """The present job has no machines yet."""
    situation, net = prospect.situation, prospect.net
    waited_s = situation.now_s - (situation.now_s if situation.asked_s is None else situation.asked_s)
    can_wait_s = inf
    if net and on is not net and prospect.price(on) < prospect.price(net) and not prospect.open_in_s(net):
        can_wait_s = _spare_s(prospect, on) if waited_s >= LOOK_S else prospect.fits_s(on)
        if can_wait_s < 0:
            return _on_demand(prospect, "no more time to wait: on demand to be in time")
    if waited_s >= PATIENCE_S and on.max_wait_s is None and (other := _other(prospect, on)):
        return _choice(prospect, other.index, LOOK_S, f"{waited_s / 60:.0f} minutes without machines: another rung")
    return _choice(prospect, on.index, can_wait_s, f"asked {waited_s / 60:.0f} minutes ago, no answer yet")


def _other(prospect: Prospect, on: Offer) -> Offer | None:
    """The rung to ask instead of one that does not answer: as without a job, but another."""
    rungs = prospect.offers if prospect.left_s == inf else prospect.cheaper(None)
    may = (each for each in rungs if each is not on and not prospect.open_in_s(each))
    if prospect.left_s == inf:
        return next(may, None)
    if on.is_net:
        return next((each for each in may if each.is_net), None)
    net = prospect.net
    return next((each for each in may if not each.is_net and each is not net and prospect.fits_s(each) >= 0), None)


def _with_machines(prospect: Prospect, on: Offer) -> Choice:
    net, situation = prospect.net, prospect.situation
    if not on.stays:
        saved = net is None or prospect.left_s < net.change_over_s + prospect.work_s(net) - situation.at_risk_s
        if prospect.slack_s < 0 and not saved:
            return _on_demand(prospect, "if Spot were lost now it would be late: on demand")
        return _choice(prospect, on.index, max(prospect.slack_s, 60.0), "Spot is kept until it is taken away")
    if net and net is not on and prospect.left_s < prospect.work_s(on) and prospect.net_s(net) <= prospect.left_s:
        return _on_demand(prospect, "this rung is too slow to be in time: a faster one")
    if on.strategy != "standard":
        return _choice(prospect, on.index, LOOK_S, "these machines stay")
    return _looking(prospect, on)


def _looking(prospect: Prospect, on: Offer) -> Choice:
    """On demand: to a cheaper rung whose waiting job has got machines; else one is asked as soon as it may be."""
    situation = prospect.situation
    worth = [each for each in prospect.cheaper(on) if not each.stays and _is_worth(prospect, on, each)]
    waits = next((offer for offer in worth if offer.index == situation.next_on), None)
    if waits and situation.next_running:
        return _choice(prospect, waits.index, LOOK_S, "a cheaper rung has machines again")
    if waits:
        return _choice(prospect, on.index, LOOK_S, "on demand; a job waits for Spot", waits.index)
    if not situation.can_ask_beside:
        return _choice(prospect, on.index, LOOK_S, "on demand")
    for offer in worth:
        if not prospect.open_in_s(offer):
            return _choice(prospect, on.index, LOOK_S, "on demand; Spot is asked beside it", offer.index)
    soonest = min((prospect.open_in_s(offer) for offer in worth), default=LOOK_S)
    return _choice(prospect, on.index, soonest or LOOK_S, "on demand until there is Spot")


def _is_worth(prospect: Prospect, on: Offer, offer: Offer) -> bool:
    return prospect.fits_s(offer) >= 0 and prospect.gain(on, offer) > 0
