"""Whether a machine is offered with a strategy and in a region, and whether one zone has several kinds of GPUs."""

from collections.abc import Iterator, Sequence

from vgp.base.text.figures import join_words
from vgp.base.text.nearest import did_you_mean, nearest
from vgp.machines.catalog import catalog
from vgp.machines.catalog.catalog import Accelerator, Machine
from vgp.machines.placement.combination import Combination
from vgp.machines.placement.machine_rules import Problem
from vgp.protocol import environment as variables

#: Scheduling.Strategy of the API -> name in the catalog. The first two are deprecated names.
STRATEGIES = {
    "ON_DEMAND": "standard",
    "LOW_COST": "spot",
    "STANDARD": "standard",
    "SPOT": "spot",
    "FLEX_START": "flex_start",
}
_RENAMED = {"ON_DEMAND": "STANDARD", "LOW_COST": "SPOT"}
_NUMBERS = {0: "STRATEGY_UNSPECIFIED", 1: "ON_DEMAND", 2: "LOW_COST", 3: "STANDARD", 4: "SPOT", 6: "FLEX_START"}
#: Other names of the strategies.
_OTHER_NAMES = {"PREEMPTIBLE": "SPOT", "ONDEMAND": "STANDARD", "FLEX": "FLEX_START", "DWS": "FLEX_START"}
_WORDS = {"standard": "STANDARD", "spot": "SPOT", "flex_start": "FLEX_START", "reservation": "a reservation"}

#: Expected preemptions per hour on Spot, for the programs of a job; `env` of the step can override it.
#: An assumption: Google publishes no figure. Of V100 machines on another cloud's Spot market, in
#: two zones in autumn 2022, availability ended 965 times in 1,593 hours in which there was some (published traces of
#: Wu et al., Can't Be Late, NSDI 2024, https://github.com/skypilot-org/spot-traces). What follows from it goes by its
#: square root: were they twice as many, the best interval between two checkpoints would be 0.7 times as long.
PREEMPTIONS_VARIABLE, SPOT_PREEMPTIONS_PER_HOUR = variables.PREEMPTIONS_PER_HOUR, "0.6"


def preemption_variables(strategy: str) -> dict[str, str]:
    """Returns the variable with the expected preemptions per hour; empty for strategies without preemption."""
    return {PREEMPTIONS_VARIABLE: SPOT_PREEMPTIONS_PER_HOUR} if strategy == "spot" else {}


def strategy_name(value: object) -> str:
    """Returns the enum name of a strategy, given as name or number; an unset one is the API's default, STANDARD."""
    text = _NUMBERS.get(value, str(value)) if isinstance(value, int) else str(value or "")
    return "STANDARD" if text in ("", "STRATEGY_UNSPECIFIED") else text


def is_preemptible(name: str) -> bool:
    """Whether machines of that strategy use the quota for Spot and Flex-start."""
    return STRATEGIES.get(name) in ("spot", "flex_start")


def strategy_known(name: str) -> list[Problem]:
    if name not in STRATEGIES:
        others = "Strategies: STANDARD, SPOT, FLEX_START."
        hint = explain_strategy_name(name) or did_you_mean(name.replace("-", "_"), STRATEGIES, others, cutoff=0.5)
        return [Problem("GPU009", "strategy", f"No scheduling strategy is called '{name}'.", hint)]
    if name in _RENAMED:
        return [Problem("GPU009", "strategy", f"{name} is deprecated.", f"Write {_RENAMED[name]}.", severity="warning")]
    return []


def explain_strategy_name(name: str) -> str:
    """Returns the hint for a strategy name of another cloud or of an older offer; empty for other words."""
    known = _OTHER_NAMES.get(name.upper())
    return f"Did you mean {known}?" if known else ""


def strategy(combination: Combination, name: str, reserved: bool | None) -> list[Problem]:
    """Returns a problem if the machine is not offered with the strategy. `reserved` None: unknown."""
    machine, offer = combination.machine, STRATEGIES.get(name)
    if offer is None:
        return []
    if offer == "flex_start":
        return _check_flex_start(combination)
    if offer in machine.provisioning or reserved is None:
        return []
    if offer == "standard" and reserved:
        return _check_reservation(machine)
    message = f"{machine.name} is not offered with {name}, only with {_join_offers(machine)}."
    fix = {"spot": "set strategy SPOT", "reservation": "name a reservation", "flex_start": "set strategy FLEX_START"}
    todo = join_words(fix[offered] for offered in machine.provisioning if offered in fix)
    return [Problem("GPU009", "strategy", message, f"{todo[0].upper()}{todo[1:]}.")]


def _check_reservation(machine: Machine) -> list[Problem]:
    if "reservation" in machine.provisioning:
        return []
    message = f"Google documents no use of a reservation of {machine.name} for training."
    return [Problem("GPU009", "reservationAffinity", message, "Spot and Flex-start work.", severity="warning")]


def _check_flex_start(combination: Combination) -> list[Problem]:
    machine = combination.machine
    if "flex_start" in machine.provisioning and machine.accelerator:
        return []
    subject = combination.accelerator_type or ("this GPU" if machine.choices else "machines without a GPU")
    message = f"FLEX_START is for L4, A100, H100, H200 and B200; it is not offered for {subject} on {machine.name}."
    return [Problem("GPU009", "strategy", message, f"Use {_join_offers(machine)}.")]


def _join_offers(machine: Machine) -> str:
    return join_words(_WORDS[way] for way in machine.provisioning)


def region_known(region: str) -> list[Problem]:
    regions = catalog.regions()
    if region in regions:
        return []
    around = region.rsplit("-", 1)[0]
    if around in regions:
        text, fix = f"'{region}' is a zone.", f"Write its region, {around}."
        return [Problem("GPU030", "region", text, fix, nearest=(("region", around),))]
    text, near = f"Vertex AI training has no region '{region}'.", nearest(region, sorted(regions), 0.5)
    inside = [each for each in sorted(regions) if each.startswith(f"{region}-")]
    if inside:
        return [Problem("GPU030", "region", text, f"There are {join_words(inside)}.")]
    if near is None:
        return [Problem("GPU030", "region", text, "See `vgp machines`.")]
    return [Problem("GPU030", "region", text, f"Did you mean {near}?", nearest=(("region", near),))]


def region(machine: Machine | None, accelerator: Accelerator, where: str, *, serving: bool = False) -> list[Problem]:
    """Returns a problem if the region lacks the accelerator: an error if no official page lists it, a warning if only
    one does."""
    if where not in catalog.regions() or accelerator.kind != "gpu" or accelerator.quota is None:
        return []
    if serving:
        return _check_serving(accelerator, where)
    pages = accelerator.pages_listing(where)
    if pages == 0:
        only = f"Regions that have it: {', '.join(accelerator.regions_of_both_pages or accelerator.regions)}."
        return [Problem("GPU010", "region", f"{where} has no {accelerator.name} for training.", only)]
    if pages == 1:
        page = "the locations page" if where in accelerator.training_regions else "the quota table"
        text = f"Only {page} of Google lists {accelerator.name} for training in {where}."
        return [
            Problem(
                "GPU010",
                "region",
                text,
                f"Listed by both: {', '.join(accelerator.regions_of_both_pages)}.",
                severity="warning",
            )
        ]
    return _type_in_region(machine, where)


def _type_in_region(machine: Machine | None, where: str) -> list[Problem]:
    """Returns a problem if Compute Engine lacks this size of machine, although the region has the accelerator."""
    if machine is None or machine.compute_regions is None or where in machine.compute_regions:
        return []
    text = f"Compute Engine lists no {machine.name} in {where}."
    there = f"It is in {', '.join(machine.compute_regions)}."
    return [Problem("GPU010", "region", text, there, severity="warning")]


def _check_serving(accelerator: Accelerator, where: str) -> list[Problem]:
    if where in accelerator.serving_regions:
        return []
    text = f"{where} has no {accelerator.name} for predictions."
    return [
        Problem("GPU010", "region", text, f"Regions that have it: {', '.join(sorted(accelerator.serving_regions))}.")
    ]


def check_one_zone(kinds: Sequence[str], regions: Sequence[str]) -> Iterator[Problem]:
    """Yields a problem if no zone of a region has all of these accelerators; a warning if their zones are unknown."""
    fix = "Use one kind of GPU, or another region."
    for where in regions:
        if not all(catalog.accelerators()[kind].pages_listing(where) for kind in kinds):
            continue  # the rule about regions reports it
        shared = catalog.shared(kinds, where)
        if shared is None:
            text = (
                f"The job mixes {join_words(kinds, 'and')}: all must be in one zone of {where}, which is not checkable."
            )
            yield Problem("GPU010", "region", text, "Use one kind of GPU, or look up its zones.", "warning")
        elif not shared:
            places = "; ".join(f"{kind} is in {', '.join(sorted(catalog.zones(kind, where) or ()))}" for kind in kinds)
            text = f"The job mixes {join_words(kinds, 'and')}, which no zone of {where} has together: {places}."
            yield Problem("GPU010", "region", text, fix)


def quota_problems(combination: Combination, amount: int, regions: Sequence[str], strategy_name: str) -> list[Problem]:
    """Warns if the default quota of every region is below `amount`, in GPUs or, for machines without GPUs, in vCPU."""
    draw = combination.quota(preemptible=is_preemptible(strategy_name))
    if draw is None or not (regions or combination.accelerator):
        return []
    listed = {region: draw.defaults[region] for region in regions or draw.defaults if region in draw.defaults}
    if not listed:
        return []
    best = max(listed, key=lambda region: listed[region])
    limit = listed[best]
    if limit >= amount:
        return []
    where = best if regions else "every region" if limit == 0 else f"{best}, the highest"
    subject = combination.accelerator_type or f"{combination.machine.family.upper()} vCPU"
    field = "acceleratorType" if combination.accelerator else "machineType"
    text = f"The default quota for {subject} in {where} is {limit}; the job needs {amount}."
    return [Problem("GPU017", field, text, f"Request {amount} of {draw.metric}.")]
