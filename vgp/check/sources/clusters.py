"""Calls that make machines which stay, as the persistent resources that they are: Ray clusters among them.

Defaults of Ray's Resources are those of google-cloud-aiplatform 1.165.1.
"""

import ast
from typing import Any

from vgp.base.documents.field_path import FieldPath
from vgp.check.sources.calls import DISK, MACHINE, Arguments, Found, located
from vgp.check.sources.constants import Constants, called

#: Argument of Ray's Resources -> field of a pool of a persistent resource.
_RAY: dict[object, tuple[str, ...]] = {
    **{name: ("machineSpec", key) for name, key in MACHINE.items()},
    **{name: ("diskSpec", key) for name, key in DISK.items()},
    "node_count": ("replicaCount",), "autoscaling_spec": ("autoscalingSpec",),
}  # fmt: skip


def message(node: ast.Call, constants: Constants) -> Found | None:
    """A call that is given machines as messages: PersistentResource.create(resource_pools=...), DeployModelOperator."""
    given = Arguments(node, constants)
    owner = called(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    if owner == "PersistentResource" and "resource_pools" in given.nodes:
        name, key = "resource_pools", "resourcePools"
    elif called(node) == "DeployModelOperator" and "deployed_model" in given.nodes:
        name, key = "deployed_model", "deployedModel"
    else:
        return None
    data = {key: constants.value(given.nodes[name], (key,), given.places)}
    return Found(node.lineno, located(given, data), given.places)


def ray_cluster(node: ast.Call, constants: Constants) -> Found | None:
    """vertex_ray.create_ray_cluster(head_node_type=Resources(...), worker_node_types=[...]): a persistent resource."""
    given = Arguments(node, constants)
    if called(node) != "create_ray_cluster" or not {"head_node_type", "worker_node_types"} & set(given.nodes):
        return None
    places: dict[FieldPath, int] = {}
    pools: list[Any] = []
    for name in ("head_node_type", "worker_node_types"):
        inside: dict[FieldPath, int] = {}
        value = constants.value(given.nodes[name], (), inside) if name in given.nodes else []
        is_list = isinstance(value, list)
        for index, one in enumerate(value if is_list else [value]):
            at: FieldPath = ("resourcePools", len(pools))
            of_one = {path[is_list:]: line for path, line in inside.items() if not is_list or path[:1] == (index,)}
            places |= {(*at, *_RAY[path[0]]): line for path, line in of_one.items() if path and path[0] in _RAY}
            places[at] = of_one.get((), node.lineno)
            pools.append(_pool(one) if isinstance(one, dict) else one)
    data = {"resourcePools": pools, "resourceRuntimeSpec": {"raySpec": {}}}
    return Found(node.lineno, located(given, data), places)


def _pool(resources: dict[str, Any]) -> dict[str, Any]:
    """Resources(...) as a pool of the persistent resource that the cluster is."""
    defaults = {"machine_type": "n1-standard-16", "node_count": 1, "boot_disk_type": "pd-ssd"}
    pool: dict[str, Any] = {}
    for name, value in (defaults | resources).items():
        if name in _RAY and value is not None:
            *outer, last = _RAY[name]
            (pool.setdefault(outer[0], {}) if outer else pool)[last] = value
    if "autoscalingSpec" in pool:
        del pool["replicaCount"]
    return pool
