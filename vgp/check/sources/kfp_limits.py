"""Resources of kfp's plain steps in a program, as a container, and calls that make persistent resources.

Defaults of Ray's Resources are those of google-cloud-aiplatform 1.165.1.
"""

import ast
from collections.abc import Iterator
from typing import Any

from vgp.base.documents.bounded_text import FieldPath
from vgp.base.documents.node import Computed
from vgp.check.sources.constants import Constants, called
from vgp.check.sources.sdk_calls import DISK, MACHINE, Arguments, Found, located

_RESOURCES: FieldPath = ("container", "resources")
#: Method of a task -> field of the container's resources.
_METHODS: dict[str, tuple[str, ...]] = {
    "set_accelerator_type": ("accelerator", "resourceType"),
    "set_accelerator_limit": ("accelerator", "resourceCount"),
    "set_gpu_limit": ("accelerator", "resourceCount"),
    "set_cpu_limit": ("resourceCpuLimit",),
    "set_memory_limit": ("resourceMemoryLimit",),
}
_TYPE = _METHODS["set_accelerator_type"]
_SELECTORS = ("cloud.google.com/gke-accelerator",)
#: What kfp 1 builds steps of on Kubernetes; it is not compiled for Vertex AI, which such a program asks for nothing.
_KUBERNETES = "ContainerOp"


def limits(constants: Constants) -> Iterator[Found]:
    """One container for each task with a request for an accelerator."""
    if any(_KUBERNETES in (getattr(node, "id", ""), getattr(node, "attr", "")) for node in constants.nodes):
        return
    tasks: dict[object, list[ast.Call]] = {}
    for node in constants.calls:
        if called(node) in _METHODS or called(node) == "add_node_selector_constraint":
            tasks.setdefault(_task(node), []).append(node)
    for calls in tasks.values():
        found = _container(sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0)), constants)
        if "accelerator" in found.data["container"]["resources"]:
            yield found


def _task(node: ast.Call) -> object:
    """What the chain of methods begins with: a variable's name, or the call that made the task."""
    owner: ast.AST = node
    while (
        isinstance(owner, ast.Call)
        and isinstance(owner.func, ast.Attribute)
        and called(owner).startswith(("set_", "add_"))
    ):
        owner = owner.func.value
    return owner.id if isinstance(owner, ast.Name) else owner


def _container(calls: list[ast.Call], constants: Constants) -> Found:
    places: dict[FieldPath, int] = {}
    resources: dict[str, Any] = {}
    for call in calls:
        way, argument, is_label = _METHODS.get(called(call)), _argument(call), False
        if way is None and _is_type(call):
            way = _TYPE
        if way is None:
            label, argument = _selector(call)
            if label is None or constants.value(label, (), {}) not in _SELECTORS:
                continue
            way, is_label = _TYPE, True
        if argument is None:
            continue
        path = (*_RESOURCES, *way)
        value = constants.value(argument, path, places)
        if is_label and isinstance(value, str) and not isinstance(value, Computed):
            value = value.replace("-", "_").upper()  # as kfp 1.8.22 does: nvidia-tesla-t4
        if way == _TYPE:  # kfp, old and new, takes one where no limit is set
            resources.setdefault("accelerator", {}).setdefault("resourceCount", "1")
        places[path] = call.end_lineno or call.lineno
        target = resources.setdefault("accelerator", {}) if len(way) > 1 else resources
        target[way[-1]] = value if isinstance(value, str) else str(value)
    return Found(calls[0].end_lineno or calls[0].lineno, {"container": {"resources": resources}}, places)


def _selector(call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """Label and value of add_node_selector_constraint."""
    given = dict(zip(("label_name", "value"), call.args, strict=False)) | {
        word.arg: word.value for word in call.keywords
    }
    return given.get("label_name"), given.get("value")


def _is_type(call: ast.Call) -> bool:
    """Whether the call names an accelerator and no label, as kfp 2 takes it: set_accelerator_type by its older name."""
    words = [word.arg for word in call.keywords]
    return (len(call.args) == 1 and not words) or (not call.args and words == ["accelerator"])


def _argument(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else call.keywords[0].value if call.keywords else None


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
