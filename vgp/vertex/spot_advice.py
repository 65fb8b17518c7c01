"""Asks Compute Engine for advice on Spot machines: advice.capacity and advice.capacityHistory.

Both are in the discovery documents compute.beta and compute.v1 of revision 20261106. Calls go to beta, because the
server of v1 refuses SPOT (Google's skill compute-spot-capacity-advice, read on 2026-11-24).
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.machines.placement.combination import Combination
from vgp.machines.placement.spot_advice import SpotAdvice, read_advice
from vgp.settings import Settings
from vgp.vertex import clients, rest
from vgp.vertex.google_errors import explain_errors

#: Seconds for one attempt and for one region: a proposal without advice is better than a late one.
_ATTEMPT_S, _REGION_S = 10.0, 20.0
_SPOT = {"scheduling": {"provisioningModel": "SPOT"}}


def ask_regions(
    settings: Settings, project: str, machine: Combination, nodes: int, regions: Sequence[str]
) -> tuple[dict[str, SpotAdvice], str]:
    """Returns the advice for each region that has one, and the reason if Compute Engine gave none at all."""
    found: dict[str, SpotAdvice] = {}
    try:
        with explain_errors("no advice of Compute Engine", settings), ThreadPoolExecutor(len(regions)) as pool:
            answers = pool.map(lambda region: ask(settings, project, machine, nodes, region), regions)
            found = {region: advice for region, advice in zip(regions, answers, strict=True) if advice}
    except (WorkFailed, RequestError) as error:
        return {}, f"{str(error).splitlines()[0]}; Spot regions are in the order of distance and price"
    return found, "" if found else f"Compute Engine has no advice for Spot machines of {machine.machine_type}"


def ask(settings: Settings, project: str, machine: Combination, nodes: int, region: str) -> SpotAdvice | None:
    """Returns the advice for one region; None if Compute Engine has none.

    Raises:
        google.api_core.exceptions.GoogleAPICallError: the API refused.
        requests.RequestException: there was no answer.
    """
    path = f"compute/beta/projects/{project}/regions/{region}/advice"
    capacity = _call(settings, f"{path}/capacity", _capacity_body(machine, nodes))
    # The history has no machines with attached GPUs:
    # https://docs.cloud.google.com/compute/docs/instances/view-preemption-rates-and-pricing
    body = {"instanceProperties": {"machineType": machine.machine_type, **_SPOT}, "types": ["PREEMPTION"]}
    has_history = machine.accelerator is None or machine.machine.accelerator is not None
    return read_advice(capacity, _call(settings, f"{path}/capacityHistory", body) if has_history else {})


def _call(settings: Settings, path: str, body: JsonObject) -> JsonObject:
    patience = clients.repeating().with_timeout(_REGION_S)
    return rest.call(settings, "compute", path, body=body, retry=patience, timeout=_ATTEMPT_S)


def _capacity_body(machine: Combination, nodes: int) -> JsonObject:
    """Returns a CapacityAdviceRequest; the machines of a job are in one zone."""
    selection: JsonObject = {"machineTypes": [machine.machine_type]}
    if machine.accelerator and machine.machine.accelerator is None:
        gpu = {"acceleratorType": machine.accelerator.compute_name, "acceleratorCount": machine.count}
        selection["guestAccelerators"] = [gpu]
    return {
        "instanceProperties": _SPOT,
        "instanceFlexibilityPolicy": {"instanceSelections": {"machine": selection}},
        "distributionPolicy": {"targetShape": "ANY_SINGLE_ZONE"},
        "size": nodes,
    }
