"""Whether the region has the machines and GPUs that the steps ask for: by the catalog, and by Compute Engine now."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgp.catalog import catalog
from vgp.check.finding import StepRow
from vgp.placement import provisioning
from vgp.settings import Settings
from vgp.vertex import rest
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.asking import patience
from vgp.vertex.preflight.finding import Finding, Level, Question

_FIELDS = {
    "machineTypes": "nextPageToken,items/*/machineTypes/name",
    "acceleratorTypes": "nextPageToken,items/*/acceleratorTypes/name",
}
#: Scopes of a zone are called zones/us-central1-a.
_ZONES = "zones/"


@dataclass(frozen=True)
class _Wanted:
    """What some step asks for."""

    machine: str
    accelerator: str | None
    region: str

    def __str__(self) -> str:
        gpus = f" with {self.accelerator}" if self.accelerator else ""
        return f"{self.machine}{gpus} in {self.region}"


def questions(settings: Settings, project: Project, steps: Sequence[StepRow]) -> Iterator[Question]:
    rows = [(row.machine_type, row.accelerator_type, row.region) for row in steps]
    wanted = list(dict.fromkeys(_Wanted(machine, gpu, region) for machine, gpu, region in rows if machine and region))
    if wanted:
        yield Question("region.catalog", settings.region, lambda: _listed(wanted))
        yield Question("region.now", settings.region, lambda: _now(settings, project, wanted))


def _listed(wanted: Sequence[_Wanted]) -> Iterator[Finding]:
    """What Google's pages said when the catalog was made."""
    source = f"(catalog of {catalog.document('accelerators.json')['as_of']})"
    for each in wanted:
        problems = provisioning.region_known(each.region)
        if each.accelerator and not problems:
            gpu = catalog.accelerators()[each.accelerator]
            problems = provisioning.region(catalog.machines().get(each.machine), gpu, each.region)
        for problem in problems:
            level: Level = "error" if problem.level == "error" else "warning"
            yield Finding("region.catalog", str(each), level, f"{problem.message} {source}", problem.suggestion)
        if not problems:
            yield Finding("region.catalog", str(each), "ok", f"is offered {source}")


def _now(settings: Settings, project: Project, wanted: Sequence[_Wanted]) -> Iterator[Finding]:
    """https://cloud.google.com/compute/docs/reference/rest/v1/machineTypes/aggregatedList"""
    gpus = {name: catalog.accelerators()[name].compute_name for name in (each.accelerator for each in wanted) if name}
    with_machine = _zones(settings, project, "machineTypes", {each.machine for each in wanted})
    with_gpu = _zones(settings, project, "acceleratorTypes", set(gpus.values())) if gpus else {}
    for each in wanted:
        zones = with_machine[each.machine]
        if each.accelerator:
            zones = zones & with_gpu[gpus[each.accelerator]]
        yield _found(each, sorted(zones), project)


def _found(wanted: _Wanted, zones: Sequence[str], project: Project) -> Finding:
    here = [zone for zone in zones if zone.rsplit("-", 1)[0] == wanted.region]
    if here:
        return Finding("region.now", str(wanted), "ok", f"is in {', '.join(here)} (Compute Engine, now)")
    others = sorted({zone.rsplit("-", 1)[0] for zone in zones} & catalog.regions())
    hint = f"It is in {', '.join(others)}" if others else "Ask Google whether your project may use it"
    seen = f"is not there, as far as Compute Engine shows {project.id}"
    return Finding("region.now", str(wanted), "warning", seen, hint)


def _zones(settings: Settings, project: Project, kind: str, names: set[str]) -> dict[str, set[str]]:
    """Name -> zones that have it, over all regions."""
    found: dict[str, set[str]] = defaultdict(set)
    query = {
        "filter": " OR ".join(f'(name = "{name}")' for name in sorted(names)),
        "fields": _FIELDS[kind],
        "maxResults": "500",
    }
    path = f"compute/v1/projects/{project.id}/aggregated/{kind}"
    for page in rest.pages(settings, "compute", path, query=query, **patience()):
        for scope, listed in page.get("items", {}).items():
            for each in listed.get(kind, ()):
                found[each["name"]].add(scope.removeprefix(_ZONES))
    return found
