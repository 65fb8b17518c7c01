"""Checks of the network through which training jobs reach private services: it exists and is peered with Google's.

https://cloud.google.com/vertex-ai/docs/general/vpc-peering
"""

from collections.abc import Iterator, Sequence

from vgp.base.documents.json_text import JsonObject
from vgp.check.check_finding import StepRow
from vgp.settings import Settings
from vgp.vertex import rest
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options, skip_question
from vgp.vertex.resource_names import short

_PEERING = "servicenetworking-googleapis-com"


def list_questions(settings: Settings, steps: Sequence[StepRow]) -> Iterator[Question]:
    name = settings.network
    if not name:
        yield skip_question("network.exists", "network", "none is set: steps use the public one")
        return
    yield Question("network.exists", name, lambda: _check_network(settings, name, steps))


def _check_network(settings: Settings, name: str, steps: Sequence[StepRow]) -> Iterator[Finding]:
    """https://cloud.google.com/compute/docs/reference/rest/v1/networks/get"""
    from google.api_core import exceptions

    try:
        network = rest.call(settings, "compute", f"compute/v1/{name}", **call_options())
    except exceptions.NotFound:
        hint = f"The networks there: gcloud compute networks list --project {name.split('/')[1]}"
        yield Finding("network.exists", name, "error", "is not there", hint)
        return
    yield Finding("network.exists", name, "ok", "is there")
    yield from _check_routes(settings, name, network, steps)
    states = [peering.get("state") for peering in network.get("peerings", ()) if peering.get("name") == _PEERING]
    if "ACTIVE" in states:
        yield Finding("network.peering", name, "ok", "has private services access")
        return
    seen = "has no private services access" if not states else f"its peering with Google is {str(states[0]).lower()}"
    hint = (
        f"gcloud services vpc-peerings connect --service=servicenetworking.googleapis.com --network={short(name)} "
        f"--ranges=RANGE --project={name.split('/')[1]}"
    )
    yield Finding("network.peering", name, "error", seen, hint)


def _check_routes(settings: Settings, name: str, network: JsonObject, steps: Sequence[StepRow]) -> Iterator[Finding]:
    """Warns of regional routes if a job runs in another region: only global routes reach a VPN or Interconnect there.

    https://cloud.google.com/vpc/docs/vpc#routing_for_hybrid_networks
    """
    elsewhere = {row.region for step in steps for row in step.every if row.region and row.region != settings.region}
    if elsewhere and network.get("routingConfig", {}).get("routingMode") == "REGIONAL":
        names = ", ".join(sorted(elsewhere))
        seen = f"has regional routes: a job in {names} reaches nothing behind a VPN of another region"
        hint = f"gcloud compute networks update {short(name)} --bgp-routing-mode=global --project={name.split('/')[1]}"
        yield Finding("network.routes", name, "warning", seen, hint)
