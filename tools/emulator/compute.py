"""Compute Engine's lists of machine types, accelerator types, regions and networks: https://cloud.google.com/compute/docs/reference/rest/v1."""

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError

if TYPE_CHECKING:
    from .cloud import Cloud

#: Zones of us-central1 with their types; a small part of https://cloud.google.com/compute/docs/gpus/gpu-regions-zones.
#: Any other region has the types of this one.
ZONES = {
    "a": {
        "acceleratorTypes": {"nvidia-tesla-t4": 4, "nvidia-l4": 8, "nvidia-tesla-a100": 16, "nvidia-h100-80gb": 8},
        "machineTypes": {"e2-standard-4": 4, "e2-standard-8": 8, "n1-standard-8": 8, "g2-standard-12": 12,
                         "g2-standard-24": 24, "g2-standard-48": 48, "a2-highgpu-1g": 12, "a3-highgpu-8g": 208},
    },
    "b": {
        "acceleratorTypes": {"nvidia-tesla-t4": 4, "nvidia-l4": 8, "nvidia-tesla-a100": 16},
        "machineTypes": {"e2-standard-4": 4, "e2-standard-8": 8, "n1-standard-8": 8, "g2-standard-12": 12,
                         "g2-standard-24": 24, "g2-standard-48": 48, "a2-highgpu-1g": 12},
    },
    "f": {
        "acceleratorTypes": {"nvidia-tesla-t4": 4},
        "machineTypes": {"e2-standard-4": 4, "e2-standard-8": 8, "n1-standard-8": 8},
    },
}  # fmt: skip
KINDS = {"acceleratorTypes": "compute#acceleratorType", "machineTypes": "compute#machineType"}
TERM = re.compile(r'\(?\s*(?:name|id)\s*(=|eq|!=|ne|:)\s*"?([^"()\s]+)"?\s*\)?')


def matches(text: str, name: str) -> bool:
    """Whether a name matches Compute's filter: (name=a) OR (name=b); `eq` takes a regular expression."""
    if not text:
        return True
    for part in re.split(r"\s+OR\s+", text):
        found = TERM.fullmatch(part.strip())
        if not found:
            raise ApiError(400, f"Invalid value for field 'filter': '{text}'.")
        operator, value = found.groups()
        hit = bool(re.fullmatch(value, name)) if operator in ("eq", "ne") else fnmatchcase(name, value)
        if hit == (operator not in ("ne", "!=")):
            return True
    return False


class Compute:
    def __init__(self, cloud: "Cloud", state: "Catalog"):
        self.cloud, self.state = cloud, state

    def url(self, *parts: str) -> str:
        return "/".join(["https://www.googleapis.com/compute/v1/projects", self.cloud.project, *parts])

    def project(self, call: Call) -> None:
        self.cloud.resource(f"projects/{call.params['project']}", call.method.replace("aggregatedList", "list"))

    def missing(self, *parts: str) -> ApiError:
        return ApiError(404, f"The resource 'projects/{self.cloud.project}/{'/'.join(parts)}' was not found")


class Catalog:
    """The types of each zone, and the networks of the project."""

    def __init__(self, region: str) -> None:
        #: {zone: {"acceleratorTypes": {name: most in a machine}, "machineTypes": {name: vCPUs}}}
        self.zones: dict[str, dict[str, dict[str, int]]] = {
            f"{region}-{zone}": {kind: dict(names) for kind, names in has.items()} for zone, has in ZONES.items()
        }
        #: {name: peered networks}; private services access is a peering with servicenetworking.
        self.networks: dict[str, list[str]] = {"default": ["servicenetworking-googleapis-com"]}
        #: (region, name).
        self.attachments: set[tuple[str, str]] = set()
        #: (region, machine type) -> obtainability, and seconds of uptime.
        self.advice: dict[tuple[str, str], tuple[float, int]] = {}
        #: (region, machine type) -> day of November 2026 -> preemption rate.
        self.preemptions: dict[tuple[str, str], dict[int, float]] = {}


class Networks(Compute):
    prefix = "compute.networks"

    def get(self, call: Call) -> dict[str, Any]:
        self.project(call)
        name = call.params["network"]
        if name not in self.state.networks:
            raise self.missing("global", "networks", name)
        peerings = [{"name": peer, "state": "ACTIVE"} for peer in self.state.networks[name]]
        return {
            "kind": "compute#network",
            "name": name,
            "selfLink": self.url("global", "networks", name),
            "autoCreateSubnetworks": True,
            "peerings": peerings,
        }


class NetworkAttachments(Compute):
    prefix = "compute.networkAttachments"

    def get(self, call: Call) -> dict[str, Any]:
        self.project(call)
        region, name = call.params["region"], call.params["networkAttachment"]
        if (region, name) not in self.state.attachments:
            raise self.missing("regions", region, "networkAttachments", name)
        link = self.url("regions", region, "networkAttachments", name)
        return {"kind": "compute#networkAttachment", "name": name, "selfLink": link}


class Regions(Compute):
    prefix = "compute.regions"

    def get(self, call: Call) -> dict[str, Any]:
        self.project(call)
        name = call.params["region"]
        zones = [zone for zone in self.state.zones if zone.rpartition("-")[0] == name]
        if not zones:
            raise self.missing("regions", name)
        links = [self.url("zones", zone) for zone in zones]
        return {"kind": "compute#region", "name": name, "status": "UP", "zones": links, "quotas": []}


class Typed(Compute):
    """Machine types or accelerator types, by zone."""

    kind = ""

    def render(self, zone: str, name: str, count: int) -> dict[str, Any]:
        known = {"kind": KINDS[self.kind], "name": name, "zone": self.url("zones", zone)}
        known["selfLink"] = self.url("zones", zone, self.kind, name)
        return known | ({"maximumCardsPerInstance": count} if self.kind == "acceleratorTypes" else {"guestCpus": count})

    def get(self, call: Call) -> dict[str, Any]:
        self.project(call)
        zone, name = call.params["zone"], call.params[self.kind.removesuffix("s")]
        if name not in self.state.zones.get(zone, {}).get(self.kind, {}):
            raise self.missing("zones", zone, self.kind, name)
        return self.render(zone, name, self.state.zones[zone][self.kind][name])

    def find(self, call: Call, zones: list[str]) -> list[tuple[str, str, int]]:
        """Returns (zone, name, count) of the types that match the filter."""
        wanted = call.query.get("filter", "")
        return [
            (zone, name, count)
            for zone in zones
            for name, count in self.state.zones[zone][self.kind].items()
            if matches(wanted, name)
        ]

    def page(self, call: Call, zones: list[str]) -> tuple[list[tuple[str, str, int]], str]:
        every = {f"{zone}/{name}": (zone, name, count) for zone, name, count in self.find(call, zones)}
        names, following = self.cloud.pages.cut_page(call.query, lambda: list(every), size="maxResults")
        return [every[name] for name in names], following

    def list(self, call: Call) -> dict[str, Any]:
        self.project(call)
        zone = call.params["zone"]
        if zone not in self.state.zones:
            raise self.missing("zones", zone)
        rows, following = self.page(call, [zone])
        token = {"nextPageToken": following} if following else {}
        return {"kind": KINDS[self.kind] + "List", "items": [self.render(*row) for row in rows], **token}

    def aggregatedList(self, call: Call) -> dict[str, Any]:
        self.project(call)
        rows, following = self.page(call, list(self.state.zones))
        scopes: dict[str, dict[str, Any]] = {}
        for zone in self.state.zones:
            here = [self.render(*row) for row in rows if row[0] == zone]
            warning = {
                "warning": {"code": "NO_RESULTS_ON_PAGE", "message": f"No results for the scope 'zones/{zone}'."}
            }
            scopes[f"zones/{zone}"] = {self.kind: here} if here else warning
        token = {"nextPageToken": following} if following else {}
        return {"kind": KINDS[self.kind] + "AggregatedList", "items": scopes, **token}


class AcceleratorTypes(Typed):
    prefix, kind = "compute.acceleratorTypes", "acceleratorTypes"


class MachineTypes(Typed):
    prefix, kind = "compute.machineTypes", "machineTypes"


class Advice(Compute):
    """Advice on Spot machines, as compute.beta of revision 20261106 defines it."""

    prefix = "compute.advice"

    def capacity(self, call: Call) -> dict[str, Any]:
        self.project(call)
        model = self.spot(call.body["instanceProperties"])
        (selection,) = call.body["instanceFlexibilityPolicy"]["instanceSelections"].values()
        (machine,), region = selection["machineTypes"], call.params["region"]
        known = self.state.advice.get((region, machine))
        if known is None:
            return {}
        shard = {"instanceCount": call.body["size"], "machineType": machine, "provisioningModel": model,
                 "zone": self.url("zones", f"{region}-a")}  # fmt: skip
        scores = {"obtainability": known[0], "estimatedUptime": f"{known[1]}s"}
        return {"recommendations": [{"scores": scores, "shards": [shard]}]}

    def capacityHistory(self, call: Call) -> dict[str, Any]:
        self.project(call)
        self.spot(call.body["instanceProperties"])
        machine, region = call.body["instanceProperties"]["machineType"], call.params["region"]
        if machine.startswith("n1-") and call.body["instanceProperties"].get("guestAccelerators"):
            raise ApiError(400, f"Machine type {machine} with GPUs is not supported.")
        records = [
            {"interval": {"startTime": f"2026-11-{day}T00:00:00Z", "endTime": f"2026-11-{day + 1}T00:00:00Z"},
             "preemptionRate": rate}
            for day, rate in self.state.preemptions.get((region, machine), {}).items()
        ]  # fmt: skip
        link = self.url("regions", region)
        return {"machineType": machine, "location": link, "preemptionHistory": records}

    def spot(self, properties: dict[str, Any]) -> str:
        model = str(properties["scheduling"]["provisioningModel"])
        if model != "SPOT":
            raise ApiError(400, f"Provisioning model {model} is not supported.")
        return model


SERVICES = (Advice, Networks, NetworkAttachments, Regions, AcceleratorTypes, MachineTypes)
