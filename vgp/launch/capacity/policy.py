"""The choice of the next rung: pure functions of the launcher's knowledge, without I/O or a clock.

The starting point is Uniform Progress (Wu et al., "Can't Be Late: Optimizing Spot Instance Savings under Deadlines",
NSDI 2024, https://www.usenix.org/conference/nsdi24/presentation/wu-zhanghao), with its rules by their names: *thrifty*
(nothing runs when the work is done), *safety net* (without a job, when the time left just covers on demand and two
change-overs: on demand until the end), *exploitation* (a Spot machine is kept until it is preempted), *hysteresis*
(leave on demand only if the change-overs fit). The differences, and why:

- The paper sees at any time whether there is a Spot machine. Vertex AI shows this only through a job that waits, is
  refused or runs. So the policy knows only refusals and grants (`Record`), and asks a rung that refused again after a
  pause that doubles. While a job trains on demand, another job waits for Spot machines: it costs nothing until it has
  them, and then the training moves to it.
- The paper spends its slack evenly. This policy spends it first on waiting for Spot, down to a reserve of an eighth of
  the remaining work, because on demand bought early is often not needed later. The reserve pays for change-overs to
  Spot and back until the end, which greedy policies cannot make. Both figures:
  `benchmarks.capacity` (docs/internals/benchmarks.md).
- There are several rungs, each with a `speed`; the price of work decides. Rungs without a queue and without preemption
  (`standard`, `reservation`) are the net: the cheapest that still finishes in time. The policy queues for Flex-start
  only while the net allows it, and never leaves a Flex-start machine or a reservation.
- It leaves on demand only if the expected saving of a Spot machine over its expected life exceeds the change-overs.
- On demand can be refused too, and then no policy can promise a deadline. After each refusal (up to three), the policy
  asks for on demand half an hour earlier and keeps the machine; if there is none, it asks the net's rungs and then all
  others in turn, and takes the first machine.

The guarantee: the work is done by the deadline if on demand from the first moment would have done it with a change-over
and `MARGIN_S` to spare, on demand gives machines when asked, no change-over takes longer than its `change_over_s`, the
work is not more than estimated, and `decide` is called no later than `look_again_s` asks.

Without a deadline, the policy asks the rungs in their order, and again after a pause that doubles.
"""

from collections.abc import Sequence
from math import inf

from vgp.launch.capacity.prospect import Choice, Offer, Prospect, Record, Situation, Strategy

__all__ = ["Choice", "Offer", "Record", "Situation", "Strategy", "decide"]

#: The longest time between two decisions while a job waits or runs, seconds.
LOOK_S = 300.0
#: How long a job may wait for machines without an answer while another rung could be asked, seconds.
PATIENCE_S = 900.0


def decide(situation: Situation, offers: Sequence[Offer]) -> Choice:
    """Returns the choice for a situation; deterministic. Call it when a job ends, and after `look_again_s`.

    Raises:
        ValueError: There are no offers, an index is not its position, or the number of records differs.
    """
    records = situation.records or tuple(Record() for _ in offers)
    if not offers or [offer.index for offer in offers] != list(range(len(offers))):
        raise ValueError("A ladder needs at least one rung, and the index of each offer must be its position.")
    if len(records) != len(offers):
        raise ValueError(f"{len(records)} records for {len(offers)} rungs. Give one record per rung.")
    prospect = Prospect(situation, offers, records)
    if situation.on is None:
        return _choose_without_job(prospect)
    offer = offers[situation.on]
    return _choose_with_machines(prospect, offer) if situation.running else _choose_while_waiting(prospect, offer)


def _make_choice(prospect: Prospect, rung: int | None, look_s: float, why: str, beside: int | None = None) -> Choice:
    if prospect.left_s < inf:
        slack = "" if prospect.slack_s == inf else f", {prospect.slack_s / 3600:.1f} h of slack"
        why = f"{why}; {prospect.left_s / 3600:.1f} h to the deadline{slack}"
    return Choice(rung=rung, look_again_s=max(min(look_s, LOOK_S), 5.0), why=f"{why}.", beside=beside)


def _choose_without_job(prospect: Prospect) -> Choice:
    if prospect.left_s == inf:
        return _choose_first_open(prospect, prospect.offers, "no deadline: the first rung in order that may be asked")
    net = prospect.net
    cheaper = [offer for offer in prospect.cheaper(net) if prospect.fits_s(offer) >= 0]
    for offer in cheaper:
        # Rungs that have just refused must not use the reserve: of several rungs, one could always be asked.
        if not prospect.open_in_s(offer) and (_spare_s(prospect, offer) > 0 or not prospect.failures(offer)):
            return _make_choice(prospect, offer.index, prospect.fits_s(offer), "the cheapest rung that may be asked")
    spare = max((_spare_s(prospect, offer) for offer in cheaper), default=0.0)
    if spare > 0:
        soonest = min(prospect.open_in_s(offer) for offer in cheaper)
        return _make_choice(prospect, None, min(soonest, spare), "a cheaper rung may be asked again by then")
    return _choose_on_demand(prospect, "on demand, to meet the deadline")


def _spare_s(prospect: Prospect, offer: Offer) -> float:
    """Returns how long the policy can wait for a rung while no job trains."""
    wait = prospect.slack_s - prospect.entry_s(offer) - prospect.reserve_s(offer)
    return min(prospect.fits_s(offer), wait) if prospect.net else inf


def _choose_on_demand(prospect: Prospect, why: str) -> Choice:
    net = prospect.net
    if net and not prospect.open_in_s(net):
        return _make_choice(prospect, net.index, LOOK_S, why)
    order = sorted(prospect.offers, key=lambda offer: (not offer.is_net, prospect.work_s(offer), offer.index))
    return _choose_first_open(prospect, order, f"{why}; its cheapest rung has just refused")


def _choose_first_open(prospect: Prospect, order: Sequence[Offer], why: str) -> Choice:
    for offer in order:
        if not prospect.open_in_s(offer):
            return _make_choice(prospect, offer.index, LOOK_S, why)
    soonest = min(prospect.open_in_s(offer) for offer in order)
    return _make_choice(prospect, None, soonest, f"{why}: every rung has just refused")


def _choose_while_waiting(prospect: Prospect, on: Offer) -> Choice:
    """Returns the choice while the current job has no machines yet."""
    situation, net = prospect.situation, prospect.net
    waited_s = situation.now_s - (situation.now_s if situation.asked_s is None else situation.asked_s)
    can_wait_s = inf
    if net and on is not net and prospect.price(on) < prospect.price(net) and not prospect.open_in_s(net):
        can_wait_s = _spare_s(prospect, on) if waited_s >= LOOK_S else prospect.fits_s(on)
        if can_wait_s < 0:
            return _choose_on_demand(prospect, "no time left to wait: on demand, to meet the deadline")
    if waited_s >= PATIENCE_S and on.max_wait_s is None and (other := _find_other_rung(prospect, on)):
        return _make_choice(
            prospect, other.index, LOOK_S, f"no machines for {waited_s / 60:.0f} minutes: trying another rung"
        )
    return _make_choice(prospect, on.index, can_wait_s, f"waiting for machines for {waited_s / 60:.0f} minutes")


def _find_other_rung(prospect: Prospect, on: Offer) -> Offer | None:
    """Returns another rung to ask instead of `on`, which does not answer, or None."""
    rungs = prospect.offers if prospect.left_s == inf else prospect.cheaper(None)
    ready = (offer for offer in rungs if offer is not on and not prospect.open_in_s(offer))
    if prospect.left_s == inf:
        return next(ready, None)
    if on.is_net:
        return next((offer for offer in ready if offer.is_net), None)
    net = prospect.net
    fitting = (offer for offer in ready if not offer.is_net and offer is not net and prospect.fits_s(offer) >= 0)
    return next(fitting, None)


def _choose_with_machines(prospect: Prospect, on: Offer) -> Choice:
    net, situation = prospect.net, prospect.situation
    if not on.stays:
        saved = net is None or prospect.left_s < net.change_over_s + prospect.work_s(net) - situation.at_risk_s
        if prospect.slack_s < 0 and not saved:
            return _choose_on_demand(prospect, "losing Spot now would miss the deadline: on demand")
        return _make_choice(prospect, on.index, max(prospect.slack_s, 60.0), "on Spot until it is preempted")
    if net and net is not on and prospect.left_s < prospect.work_s(on) and prospect.net_s(net) <= prospect.left_s:
        return _choose_on_demand(prospect, "this rung is too slow for the deadline: moving to a faster one")
    if on.strategy != "standard":
        return _make_choice(prospect, on.index, LOOK_S, "these machines are not preempted")
    return _choose_while_on_demand(prospect, on)


def _choose_while_on_demand(prospect: Prospect, on: Offer) -> Choice:
    """Returns the choice on demand: move to the waiting job if it has machines, else ask for Spot as soon as
    allowed."""
    situation = prospect.situation
    worth = [offer for offer in prospect.cheaper(on) if not offer.stays and _is_worth(prospect, on, offer)]
    waiting = next((offer for offer in worth if offer.index == situation.next_on), None)
    if waiting and situation.next_running:
        return _make_choice(prospect, waiting.index, LOOK_S, "a cheaper rung has machines again")
    if waiting:
        return _make_choice(prospect, on.index, LOOK_S, "on demand; a job waits for Spot", waiting.index)
    if not situation.can_ask_beside:
        return _make_choice(prospect, on.index, LOOK_S, "on demand")
    for offer in worth:
        if not prospect.open_in_s(offer):
            return _make_choice(
                prospect, on.index, LOOK_S, "on demand; creating a job that waits for Spot", offer.index
            )
    soonest = min((prospect.open_in_s(offer) for offer in worth), default=LOOK_S)
    return _make_choice(prospect, on.index, soonest or LOOK_S, "on demand until Spot may be asked again")


def _is_worth(prospect: Prospect, on: Offer, offer: Offer) -> bool:
    return prospect.fits_s(offer) >= 0 and prospect.gain(on, offer) > 0
