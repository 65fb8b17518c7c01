"""Checks that the region has the machines and GPUs of the steps: by the catalog, and by Compute Engine now."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from vgp.check.check_finding import StepRow
from vgp.machines.catalog import catalog
from vgp.machines.placement import provisioning
from vgp.machines.placement.combination import Combination
from vgp.settings import Settings
from vgp.vertex import rest, spot_advice
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Level, Question, call_options

_FIELDS = {
    "machineTypes": "nextPageToken,items/*/machineTypes/name",
    "acceleratorTypes": "nextPageToken,items/*/acceleratorTypes/name",
}
#: A scope that is a zone is named like zones/us-central1-a.
_ZONES = "zones/"


@dataclass(frozen=True)
class _Request:
    """A machine type with its GPU type, in a region, that a step requests."""

    machine: str
    accelerator: str | None
    region: str

    def __str__(self) -> str:
        gpus = f" with {self.accelerator}" if self.accelerator else ""
        return f"{self.machine}{gpus} in {self.region}"


def list_questions(settings: Settings, project: Project, steps: Sequence[StepRow]) -> Iterator[Question]:
    rows = [(row.machine_type, row.accelerator_type, row.region) for step in steps for row in step.every]
    requests = list(
        dict.fromkeys(_Request(machine, gpu, region) for machine, gpu, region in rows if machine and region)
    )
    if requests:
        yield Question("region.catalog", settings.region, lambda: _check_catalog(requests))
        yield from _spot_questions(settings, project, steps)
        yield Question("region.now", settings.region, lambda: _check_compute_engine(settings, project, requests))


def _spot_questions(settings: Settings, project: Project, steps: Sequence[StepRow]) -> Iterator[Question]:
    """Yields a question for each Spot machine: whether Compute Engine expects to have it now."""
    rows = [row for step in steps for row in step.every if row.strategy.upper() == "SPOT"]
    spot = {(row.combination, row.replicas or 1, row.region) for row in rows if row.combination and row.region}
    for machine, nodes, where in sorted(spot, key=str):
        subject = f"{machine} in {where}" if nodes == 1 else f"{nodes} machines of {machine} in {where}"
        yield Question("region.spot", subject, partial(_judge_spot, settings, project, machine, nodes, where, subject))


def _judge_spot(
    settings: Settings, project: Project, machine: Combination, nodes: int, region: str, subject: str
) -> Iterator[Finding]:
    """Yields Compute Engine's advice on Spot; a low score is a warning, because a ladder may choose elsewhere."""
    advice = spot_advice.ask(settings, project.id, machine, nodes, region)
    seen = f"Spot: {advice} (Compute Engine, now)" if advice else "Compute Engine has no advice on Spot"
    if advice is None or advice.rank < 2:
        yield Finding("region.spot", subject, "ok", seen)
    else:
        hint = f"Other regions: vgp machines --ladder --project {project.id}"
        yield Finding("region.spot", subject, "warning", seen, hint)


def _check_catalog(requests: Sequence[_Request]) -> Iterator[Finding]:
    """Checks the requests against the catalog, which was read from Google's pages."""
    source = f"(catalog of {catalog.document('accelerators.json')['as_of']})"
    for request in requests:
        problems = provisioning.region_known(request.region)
        if request.accelerator and not problems:
            gpu = catalog.accelerators()[request.accelerator]
            problems = provisioning.region(catalog.machines().get(request.machine), gpu, request.region)
        for problem in problems:
            level: Level = "error" if problem.level == "error" else "warning"
            yield Finding("region.catalog", str(request), level, f"{problem.message} {source}", problem.suggestion)
        if not problems:
            yield Finding("region.catalog", str(request), "ok", f"is offered {source}")


def check_machine(settings: Settings, project: Project, machine: str, region: str) -> Iterator[Finding]:
    """Checks that Compute Engine has a machine of Dataflow in the region."""
    for finding in _check_compute_engine(settings, project, [_Request(machine, None, region)]):
        yield replace(finding, check="dataflow.machine")


def _check_compute_engine(settings: Settings, project: Project, requests: Sequence[_Request]) -> Iterator[Finding]:
    """https://cloud.google.com/compute/docs/reference/rest/v1/machineTypes/aggregatedList"""
    accelerators = {request.accelerator for request in requests if request.accelerator}
    gpus = {name: catalog.accelerators()[name].compute_name for name in accelerators}
    with_machine = _list_zones(settings, project, "machineTypes", {request.machine for request in requests})
    with_gpu = _list_zones(settings, project, "acceleratorTypes", set(gpus.values())) if gpus else {}
    for request in requests:
        zones = with_machine[request.machine]
        if request.accelerator:
            zones = zones & with_gpu[gpus[request.accelerator]]
        yield _report_zones(request, sorted(zones), project)


def _report_zones(request: _Request, zones: Sequence[str], project: Project) -> Finding:
    here = [zone for zone in zones if zone.rsplit("-", 1)[0] == request.region]
    if here:
        return Finding("region.now", str(request), "ok", f"is in {', '.join(here)} (Compute Engine, now)")
    others = sorted({zone.rsplit("-", 1)[0] for zone in zones} & catalog.regions())
    hint = f"It is in {', '.join(others)}" if others else "Ask Google whether your project may use it"
    seen = f"is not there, as far as Compute Engine shows {project.id}"
    return Finding("region.now", str(request), "warning", seen, hint)


def _list_zones(settings: Settings, project: Project, kind: str, names: set[str]) -> dict[str, set[str]]:
    """Returns the zones, of all regions, that have each of `names`."""
    zones: dict[str, set[str]] = defaultdict(set)
    query = {
        "filter": " OR ".join(f'(name = "{name}")' for name in sorted(names)),
        "fields": _FIELDS[kind],
        "maxResults": "500",
    }
    path = f"compute/v1/projects/{project.id}/aggregated/{kind}"
    for page in rest.pages(settings, "compute", path, query=query, **call_options()):
        for scope, listed in page.get("items", {}).items():
            for item in listed.get(kind, ()):
                zones[item["name"]].add(scope.removeprefix(_ZONES))
    return zones
