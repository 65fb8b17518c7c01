"""The flags of `gcloud ai endpoints deploy-model` as the body of the request that it sends."""

from typing import Any

from vgp.check.sources.command_line import Line, accelerator, pairs, whole

_REPLICAS = {"min-replica-count": "minReplicaCount", "max-replica-count": "maxReplicaCount"}


def deployment(line: Line) -> dict[str, Any]:
    """The deployed model with its machine; without --machine-type Google chooses one."""
    machine: dict[str, Any] = {}
    if line.value("machine-type"):
        machine["machineType"] = line.value("machine-type")
    if line.value("accelerator"):
        values = pairs(str(line.value("accelerator")), "accelerator")
        machine["acceleratorType"] = accelerator(values.get("type", ""))
        machine["acceleratorCount"] = whole(values.get("count", "1"), "accelerator count")
    resources: dict[str, Any] = {"machineSpec": machine} if machine else {}
    for flag, name in _REPLICAS.items():
        if line.value(flag) is not None and resources:
            resources[name] = whole(str(line.value(flag)), flag)
    model = {"dedicatedResources": resources} if resources else {"automaticResources": {}}
    where = {"location": line.value("region")} if line.value("region") else {}
    return {"deployedModel": {**model, "displayName": line.value("display-name") or ""}, **where}
