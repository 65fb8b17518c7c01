"""Converts calls of Google's SDK, of its pipeline components and of Airflow's operators into the requests that they
send.

Defaults are those of google-cloud-aiplatform 1.165.1, which Airflow's operators have too, and of
google-cloud-pipeline-components 2.20.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from vgp.base.documents.bounded_text import FieldPath
from vgp.base.documents.document import At, Document
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Computed
from vgp.check.sources.constants import Constants, read_callable_name

_DEFAULT_MACHINE = "n1-standard-4"
#: Argument -> field of a machineSpec.
MACHINE = {
    "machine_type": "machineType", "accelerator_type": "acceleratorType", "accelerator_count": "acceleratorCount",
    "tpu_topology": "tpuTopology",
}  # fmt: skip
DISK = {"boot_disk_type": "bootDiskType", "boot_disk_size_gb": "bootDiskSizeGb"}
_STAGING = (
    "The SDK raises RuntimeError: CustomJob has no staging_bucket, and this file sets none.",
    "aiplatform.init(..., staging_bucket='gs://BUCKET'), before the job is created.",
)
_MAPPING = (
    "worker_pool_specs is a dictionary: Google's Python client accepts only a list, and raises TypeError.",
    "Write a list: [{'machine_spec': ...}].",
)


@dataclass
class SdkRequest:
    """One request: its data, and the lines of its parts."""

    line: int
    data: Any
    places: dict[FieldPath, int] = field(default_factory=dict)
    broken: list[tuple[FieldPath, str, str]] = field(default_factory=list)

    def document(self, file: str, at: At) -> Document:
        places = {path: at(line) for path, line in {(): self.line, **self.places}.items()}
        return Document(file, self.data, "", places=places, broken=tuple(self.broken))


class Arguments:
    """The keyword arguments of a call with their values."""

    def __init__(self, node: ast.Call, constants: Constants) -> None:
        self.constants = constants
        self.nodes = {word.arg: word.value for word in node.keywords if word.arg}
        #: Whether there may be hidden arguments: **options.
        self.is_open = any(word.arg is None for word in node.keywords)
        self.places: dict[FieldPath, int] = {}

    def add_fields(self, data: JsonObject, names: dict[str, str], path: FieldPath) -> JsonObject:
        """Returns the arguments of these names as fields of an object at `path`."""
        for name, key in names.items():
            if name in self.nodes:
                value = self.constants.value(self.nodes[name], (*path, key), self.places)
                if value is not None:
                    data[key] = value
            elif self.is_open and key in ("machineType", "acceleratorType", "acceleratorCount"):
                data[key] = Computed("the program passes it in **arguments")
        return data


def read_custom_job(node: ast.Call, constants: Constants) -> SdkRequest | None:
    """Reads CustomJob(worker_pool_specs=...), and the Op of the pipeline components."""
    name = read_callable_name(node)
    if name not in ("CustomJob", "CustomJobSpec", "CustomTrainingJobOp", "CustomJobOp"):
        return None
    arguments = Arguments(node, constants)
    pools = arguments.nodes.get("worker_pool_specs")
    if pools is None and name == "CustomJob" and len(node.args) > 1:
        pools = node.args[1]
    if pools is None:
        return None
    path: FieldPath = ("jobSpec", "workerPoolSpecs")
    spec: JsonObject = {"workerPoolSpecs": constants.value(pools, path, arguments.places)}
    given_mapping = isinstance(spec["workerPoolSpecs"], dict)
    running = node if name != "CustomJob" else constants.run_of(node)
    scheduling = _read_scheduling(running, constants, arguments.places) if running is not None else {}
    if scheduling:
        spec["scheduling"] = scheduling
    data = _build_job(arguments, spec)
    if name == "CustomJob":
        _add_region(data, arguments)
    request = SdkRequest(node.lineno, data, arguments.places)
    if (
        name == "CustomJob"
        and "staging_bucket" not in arguments.nodes
        and not arguments.is_open
        and not _sets_staging_bucket(constants)
    ):
        request.broken.append(((), *_STAGING))
    if given_mapping:
        request.broken.append((path, *_MAPPING))
    return request


def read_training_job(node: ast.Call, constants: Constants) -> SdkRequest | None:
    """Reads CustomTrainingJob(...).run(machine_type=...), with its container if the file creates the job.

    An operator of Airflow creates the job and runs it.
    """
    name = read_callable_name(node)
    is_operator = name.endswith("TrainingJobOperator")
    if not (is_operator or name in ("run", "submit", "from_local_script")):
        return None
    if not {word.arg for word in node.keywords} & {"machine_type", "accelerator_type", "accelerator_count"}:
        return None
    arguments = Arguments(node, constants)
    maker = constants.resolve_name(node.func.value) if isinstance(node.func, ast.Attribute) else None
    maker = node if is_operator else maker
    data = _build_job(arguments, _build_equal_machines(node, arguments, _find_container(maker, constants)))
    if name == "from_local_script":
        _add_region(data, arguments)
    elif isinstance(maker, ast.Call) and not is_operator:
        _add_region(data, Arguments(maker, constants))
    return SdkRequest(node.lineno, data, arguments.places)


def from_component(node: ast.Call, constants: Constants) -> SdkRequest | None:
    """Reads create_custom_training_job_from_component(step, machine_type=...)."""
    if read_callable_name(node) not in (
        "create_custom_training_job_from_component", "create_custom_training_job_op_from_component",
    ):  # fmt: skip
        return None
    arguments = Arguments(node, constants)
    # The component's image is inserted when the pipeline is compiled.
    spec = _build_equal_machines(node, arguments, {"containerSpec": {}})
    machine = spec["workerPoolSpecs"][0]["machineSpec"]
    if "acceleratorType" in machine:
        machine.setdefault("acceleratorCount", 1)
    return SdkRequest(node.lineno, _build_job(arguments, spec), arguments.places)


def _build_equal_machines(node: ast.Call, arguments: Arguments, body: JsonObject) -> JsonObject:
    """Returns the CustomJobSpec of a call with one machine type and a count: a chief, and the workers."""
    path: FieldPath = ("jobSpec", "workerPoolSpecs", 0)
    machine = arguments.add_fields({"machineType": _DEFAULT_MACHINE}, MACHINE, (*path, "machineSpec"))
    pool: JsonObject = {"machineSpec": machine, "replicaCount": 1, **body}
    if disk := arguments.add_fields({}, DISK, (*path, "diskSpec")):
        pool["diskSpec"] = disk
    replicas = (
        arguments.constants.value(arguments.nodes["replica_count"], (), {}) if "replica_count" in arguments.nodes else 1
    )
    several = isinstance(replicas, int) and replicas > 1
    pools = [pool, {**pool, "replicaCount": replicas - 1}] if several else [pool]
    return {"workerPoolSpecs": pools, "scheduling": _read_scheduling(node, arguments.constants, arguments.places)}


def read_deployment(node: ast.Call, constants: Constants) -> SdkRequest | None:
    """Reads model.deploy(machine_type=...), endpoint.deploy, batch_predict, their Ops and operators."""
    name = read_callable_name(node)
    names = {word.arg for word in node.keywords}
    prefix = "dedicated_resources_" if name == "ModelDeployOp" else ""
    if (
        name
        not in ("deploy", "ModelDeployOp", "batch_predict", "ModelBatchPredictOp", "CreateBatchPredictionJobOperator")
        or f"{prefix}machine_type" not in names
    ):
        return None
    arguments = Arguments(node, constants)
    is_batch = "atch" in name
    outer: FieldPath = ("dedicatedResources",) if is_batch else ("deployedModel", "dedicatedResources")
    machine = arguments.add_fields(
        {}, {f"{prefix}{key}": value for key, value in MACHINE.items()}, (*outer, "machineSpec")
    )
    counts = ("starting_replica_count", "startingReplicaCount"), ("max_replica_count", "maxReplicaCount")
    counts = counts if is_batch else (("min_replica_count", "minReplicaCount"), counts[1])
    resources = arguments.add_fields(
        {"machineSpec": machine}, {f"{prefix}{key}": value for key, value in counts}, outer
    )
    data = {"dedicatedResources": resources}
    return SdkRequest(node.lineno, data if is_batch else {"deployedModel": data}, arguments.places)


CALLS = (read_custom_job, read_training_job, from_component, read_deployment)


def _build_job(arguments: Arguments, spec: JsonObject) -> JsonObject:
    return add_location(arguments, {"jobSpec": spec})


def add_location(arguments: Arguments, data: JsonObject) -> JsonObject:
    """Returns the request with its name and its region, if the call has them."""
    for name, key in (("display_name", "displayName"), ("location", "location"), ("region", "location")):
        value = read_text(arguments, name)
        if value:
            data[key] = value
    return data


def _add_region(data: JsonObject, maker: Arguments) -> None:
    """Adds the region of an SDK job: that of the call that creates it, else that of the program's init."""
    inits = [each for each in maker.constants.calls if read_callable_name(each) == "init"]
    makers = [maker] if "location" in maker.nodes else [Arguments(each, maker.constants) for each in inits]
    regions = {read_text(each, "location") for each in makers if each.is_open or "location" in each.nodes}
    if len(regions) == 1 and (region := regions.pop()) and not maker.is_open:
        data["location"] = region


def read_text(arguments: Arguments, name: str) -> str | None:
    """Returns a constant text argument; None if it is missing or computed."""
    if name not in arguments.nodes:
        return None
    value = arguments.constants.value(arguments.nodes[name], (), {})
    return value if isinstance(value, str) and not isinstance(value, Computed) else None


def _read_scheduling(node: ast.Call, constants: Constants, places: dict[FieldPath, int]) -> JsonObject:
    """Returns timeout, strategy and waiting time of a call of run or submit, or of an Op."""
    arguments = Arguments(node, constants)
    path: FieldPath = ("jobSpec", "scheduling")
    names = {"timeout": "timeout", "scheduling_strategy": "strategy", "strategy": "strategy",
             "max_wait_duration": "maxWaitDuration"}  # fmt: skip
    scheduling = arguments.add_fields({}, names, path)
    places |= arguments.places
    for name in ("timeout", "maxWaitDuration"):
        value = scheduling.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            scheduling[name] = f"{value:g}s"
    return scheduling


def _sets_staging_bucket(constants: Constants) -> bool:
    """Whether the file sets, or may set, a staging bucket for the SDK."""
    inits = [each for each in constants.calls if read_callable_name(each) == "init"]
    return any(word.arg in (None, "staging_bucket") for each in inits for word in each.keywords)


def _find_container(maker: ast.AST | None, constants: Constants) -> JsonObject:
    """Returns the container of the job, if the file creates it."""
    words = {word.arg: word.value for word in maker.keywords if word.arg} if isinstance(maker, ast.Call) else {}
    uri = words.get("container_uri")
    image = constants.value(uri, (), {}) if uri is not None else Computed("the job is not created in this file")
    kind = "containerSpec" if "ContainerTrainingJob" in read_callable_name(maker) else "pythonPackageSpec"  # type: ignore[arg-type]
    return {kind: {"imageUri" if kind == "containerSpec" else "executorImageUri": image}}


#: Argument of Ray's Resources -> field of a pool of a persistent resource.
_RAY: dict[object, tuple[str, ...]] = {
    **{name: ("machineSpec", key) for name, key in MACHINE.items()},
    **{name: ("diskSpec", key) for name, key in DISK.items()},
    "node_count": ("replicaCount",), "autoscaling_spec": ("autoscalingSpec",),
}  # fmt: skip


def message(node: ast.Call, constants: Constants) -> SdkRequest | None:
    """Reads a call that passes machines as messages: PersistentResource.create(resource_pools=...),
    DeployModelOperator."""
    arguments = Arguments(node, constants)
    owner = read_callable_name(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    if owner == "PersistentResource" and "resource_pools" in arguments.nodes:
        name, key = "resource_pools", "resourcePools"
    elif read_callable_name(node) == "DeployModelOperator" and "deployed_model" in arguments.nodes:
        name, key = "deployed_model", "deployedModel"
    else:
        return None
    data = {key: constants.value(arguments.nodes[name], (key,), arguments.places)}
    return SdkRequest(node.lineno, add_location(arguments, data), arguments.places)


def ray_cluster(node: ast.Call, constants: Constants) -> SdkRequest | None:
    """Reads vertex_ray.create_ray_cluster(head_node_type=Resources(...), worker_node_types=[...]): a persistent
    resource."""
    arguments = Arguments(node, constants)
    if read_callable_name(node) != "create_ray_cluster" or not {"head_node_type", "worker_node_types"} & set(
        arguments.nodes
    ):
        return None
    places: dict[FieldPath, int] = {}
    pools: list[Any] = []
    for name in ("head_node_type", "worker_node_types"):
        inside: dict[FieldPath, int] = {}
        value = constants.value(arguments.nodes[name], (), inside) if name in arguments.nodes else []
        is_list = isinstance(value, list)
        for index, one in enumerate(value if is_list else [value]):
            at: FieldPath = ("resourcePools", len(pools))
            of_one = {path[is_list:]: line for path, line in inside.items() if not is_list or path[:1] == (index,)}
            places |= {(*at, *_RAY[path[0]]): line for path, line in of_one.items() if path and path[0] in _RAY}
            places[at] = of_one.get((), node.lineno)
            pools.append(_build_pool(one) if isinstance(one, dict) else one)
    data = {"resourcePools": pools, "resourceRuntimeSpec": {"raySpec": {}}}
    return SdkRequest(node.lineno, add_location(arguments, data), places)


def _build_pool(resources: JsonObject) -> JsonObject:
    """Returns Resources(...) as a pool of the cluster's persistent resource."""
    defaults = {"machine_type": "n1-standard-16", "node_count": 1, "boot_disk_type": "pd-ssd"}
    pool: JsonObject = {}
    for name, value in (defaults | resources).items():
        if name in _RAY and value is not None:
            *outer, last = _RAY[name]
            (pool.setdefault(outer[0], {}) if outer else pool)[last] = value
    if "autoscalingSpec" in pool:
        del pool["replicaCount"]
    return pool


def lone_machines(constants: Constants) -> Iterator[SdkRequest]:
    """Yields machines with accelerators outside of known requests: MachineSpec(...), and fields that are set one by one
    (pool.machine_spec.accelerator_type = ...)."""
    for call in constants.calls:
        if read_callable_name(call) == "MachineSpec" and call not in constants.used:
            arguments = Arguments(call, constants)
            data = arguments.add_fields({}, MACHINE, ())
            if _is_machine(data):
                yield SdkRequest(call.lineno, data, arguments.places)
    owners: dict[str, SdkRequest] = {}
    for node in constants.nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Attribute) and target.attr in MACHINE:
            field = MACHINE[target.attr]
            request = owners.setdefault(ast.unparse(target.value), SdkRequest(node.lineno, {}))
            request.data[field] = constants.value(node.value, (field,), request.places)
    yield from (
        request for owner, request in owners.items() if _is_machine(request.data) and "machine" in owner.lower()
    )


def _is_machine(data: JsonObject) -> bool:
    return {"machineType", "acceleratorType"} <= data.keys()
