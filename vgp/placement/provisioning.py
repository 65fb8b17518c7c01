"""How a machine is got: strategy, region and quota, judged for one machine and its accelerator."""

from collections.abc import Sequence

from vgp.catalog import catalog
from vgp.catalog.catalog import Accelerator, Machine
from vgp.catalog.names import closest, listed
from vgp.placement.rules import Problem

#: Scheduling.Strategy of the API -> what the catalog calls it. The first two are deprecated names.
STRATEGIES = {
    "ON_DEMAND": "standard",
    "LOW_COST": "spot",
    "STANDARD": "standard",
    "SPOT": "spot",
    "FLEX_START": "flex_start",
}
_NOW = {"ON_DEMAND": "STANDARD", "LOW_COST": "SPOT"}
_NUMBERS = {0: "STRATEGY_UNSPECIFIED", 1: "ON_DEMAND", 2: "LOW_COST", 3: "STANDARD", 4: "SPOT", 6: "FLEX_START"}
_WORDS = {"standard": "STANDARD", "spot": "SPOT", "flex_start": "FLEX_START", "reservation": "a reservation"}


def strategy_name(value: object) -> str:
    """The enum name of a strategy given as name or number; an unset one is the API's default, STANDARD."""
    text = _NUMBERS.get(value, str(value)) if isinstance(value, int) else str(value or "")
    return "STANDARD" if text in ("", "STRATEGY_UNSPECIFIED") else text


def strategy_known(name: str) -> list[Problem]:
    if name not in STRATEGIES:
        near = closest(name.upper().replace("-", "_"), STRATEGIES, cutoff=0.5)
        hint = f"Did you mean {near}?" if near else "Strategies: STANDARD, SPOT, FLEX_START."
        return [Problem("GPU009", "strategy", f"No scheduling strategy is called '{name}'.", hint)]
    if name in _NOW:
        return [Problem("GPU009", "strategy", f"{name} is deprecated.", f"Write {_NOW[name]}.", severity="warning")]
    return []


def strategy(machine: Machine, accelerator: str | None, name: str, reserved: bool | None) -> list[Problem]:
    """Whether the machine is offered with the strategy. `reserved` None: not known."""
    way = STRATEGIES.get(name)
    if way is None:
        return []
    if way == "flex_start":
        return _flex_start(machine, accelerator)
    if way in machine.provisioning or reserved is None:
        return []
    if way == "standard" and reserved:
        return _reservation(machine)
    ways = [_WORDS[each] for each in machine.provisioning]
    message = f"{machine.name} is not offered with {name}, only with {listed(ways)}."
    fix = {"spot": "set strategy SPOT", "reservation": "name a reservation", "flex_start": "set strategy FLEX_START"}
    todo = listed(fix[each] for each in machine.provisioning if each in fix)
    return [Problem("GPU009", "strategy", message, f"{todo[0].upper()}{todo[1:]}.")]


def _reservation(machine: Machine) -> list[Problem]:
    if "reservation" in machine.provisioning:
        return []
    message = f"No page says whether a reservation of {machine.name} can be used for training."
    return [Problem("GPU009", "reservationAffinity", message, "Spot and Flex-start work.", severity="warning")]


def _flex_start(machine: Machine, accelerator: str | None) -> list[Problem]:
    if "flex_start" in machine.provisioning and machine.accelerator:
        return []
    what = accelerator or ("this GPU" if machine.choices else "machines without a GPU")
    message = f"FLEX_START is for L4, A100, H100, H200 and B200; it is not offered for {what} on {machine.name}."
    return [Problem("GPU009", "strategy", message, f"Use {listed(_WORDS[w] for w in machine.provisioning)}.")]


def region_known(region: str) -> list[Problem]:
    if region in catalog.regions():
        return []
    near = closest(region.lower(), catalog.regions(), cutoff=0.5)
    if region.rsplit("-", 1)[0] in catalog.regions():
        return [Problem("GPU030", "region", f"'{region}' is a zone.", f"Write its region, {region.rsplit('-', 1)[0]}.")]
    hint = f"Did you mean {near}?" if near else "See `pipelines machines`."
    return [Problem("GPU030", "region", f"Vertex AI training has no region '{region}'.", hint)]


def region(machine: Machine | None, row: Accelerator, where: str, *, serving: bool = False) -> list[Problem]:
    """Whether the region has the accelerator: error when no official page lists it, warning when one does."""
    if where not in catalog.regions() or row.kind != "gpu" or row.quota is None:
        return []
    if serving:
        return _serving(row, where)
    pages = row.pages_listing(where)
    both = [each for each in row.regions if row.pages_listing(each) == 2]
    if pages == 0:
        only = f"Regions that have it: {', '.join(both or row.regions)}."
        return [Problem("GPU010", "region", f"{where} has no {row.name} for training.", only)]
    if pages == 1:
        page = "the locations page" if where in row.training_regions else "the quota table"
        text = f"Only {page} of Google lists {row.name} for training in {where}."
        return [Problem("GPU010", "region", text, f"Listed by both: {', '.join(both)}.", severity="warning")]
    return _type_in_region(machine, where)


def _type_in_region(machine: Machine | None, where: str) -> list[Problem]:
    """The accelerator is in the region; Compute Engine may still lack this size of machine."""
    if machine is None or machine.compute_regions is None or where in machine.compute_regions:
        return []
    text = f"Compute Engine lists no {machine.name} in {where}."
    there = f"It is in {', '.join(machine.compute_regions)}."
    return [Problem("GPU010", "region", text, there, severity="warning")]


def _serving(row: Accelerator, where: str) -> list[Problem]:
    if where in row.serving_regions:
        return []
    text = f"{where} has no {row.name} for predictions."
    return [Problem("GPU010", "region", text, f"Regions that have it: {', '.join(sorted(row.serving_regions))}.")]


def quota(row: Accelerator, gpus: int, regions: Sequence[str], strategy_name: str) -> list[Problem]:
    """Warns when the default quota of every region in question is below the GPUs that the job needs."""
    if row.quota is None or not row.quota.defaults:
        return []
    asked = [each for each in regions if each in row.quota.defaults] or ([] if regions else list(row.quota.defaults))
    if not asked:
        return []
    best = max(asked, key=lambda each: row.quota.defaults[each])  # type: ignore[union-attr]
    limit = row.quota.defaults[best]
    if limit >= gpus:
        return []
    preemptible = STRATEGIES.get(strategy_name) in ("spot", "flex_start")
    metric = row.quota.preemptible_metric if preemptible else row.quota.metric
    where = best if regions else "every region" if limit == 0 else f"{best}, the highest"
    text = f"The default quota for {row.name} in {where} is {limit}; the job needs {gpus}."
    return [Problem("GPU017", "acceleratorType", text, f"Ask for {gpus} of {metric}.")]


def cpu_quota(machine: Machine, replicas: int, regions: Sequence[str]) -> list[Problem]:
    """The same for machines without GPUs, whose quota counts vCPU."""
    row = catalog.cpu_quota(machine.family)
    if row is None or not regions:
        return []
    limits = {each: int(limit) for limit, places in row["regions_by_default"].items() for each in places}
    short = [each for each in regions if limits.get(each, machine.vcpu * replicas) < machine.vcpu * replicas]
    if not short:
        return []
    text = f"The default quota for {machine.family.upper()} vCPU in {short[0]} is {limits[short[0]]}"
    need = machine.vcpu * replicas
    return [Problem("GPU017", "machineType", f"{text}; the job needs {need}.", f"Ask for {need} of {row['metric']}.")]
