"""Judges one worker pool of a custom job: its machine, disk, reservation, replicas and container."""

from dataclasses import dataclass, replace

from vgp.base.documents.bounded_text import spend
from vgp.base.documents.node import Node
from vgp.check import container_facts
from vgp.check.judgement import Judgement, Reader
from vgp.check.machine_spec import UNKNOWN, MachineSpec, judge_machine
from vgp.check.spec.container_settings import read
from vgp.check.terms import Terms, judge_region, price_of
from vgp.machines.placement import job_fields, provisioning, tpu_rules
from vgp.machines.placement.search import Conditions

ROLES = ("the chief", "the workers", "parameter or reduction servers", "the evaluators")


@dataclass(frozen=True)
class Pool:
    """The request of a worker pool. `replicas` and `is_reserved` are None if only the run knows them."""

    at: Node
    spec: MachineSpec
    replicas: int | None
    is_reserved: bool | None
    #: Type and GB of the boot disk; None if only the run knows them.
    boot_disk: tuple[str, int] | None = None


def judge_pool(reader: Reader, terms: Terms, index: int, pool: Node) -> Pool | None:
    """Judges the pool at that index; returns None if it is not an object, which is reported."""
    spend("steps")
    if reader.object(pool, f"workerPoolSpecs[{index}]") is None:
        return None
    reader.keys(pool, "workerPoolSpec")
    replicas = _read_replicas(reader, index, pool)
    node = reader.object(pool.get("machineSpec"), "machineSpec")
    spec, at, is_reserved = UNKNOWN, pool, None
    if node is not None:
        reader.keys(node, "machineSpec")
        is_reserved = judge_reservation(reader, terms, node)
        spec, at = (
            judge_machine(reader.judgement, reader.step, node, conditions=conditions(terms, is_reserved)),
            node.get("machineType"),
        )
    elif pool.get("machineSpec").missing:
        reader.report_malformed(pool.get("machineSpec"), "machineSpec", "given")
    result = Pool(at, spec, replicas, is_reserved)
    _check_provisioning(reader, terms, result)
    result = replace(result, boot_disk=judge_disk(reader, pool, spec))
    judge_body(reader, pool, spec, is_chief=index == 0)
    return result


def conditions(terms: Terms, is_reserved: bool | None) -> Conditions:
    """Returns the conditions for the pool's machine; a persistent resource has no conditions."""
    if terms.is_persistent:
        return Conditions()
    return Conditions(tuple(terms.regions), terms.strategy if terms.strategy_known else "", is_reserved)


def _read_replicas(reader: Reader, index: int, pool: Node) -> int | None:
    node = pool.get("replicaCount")
    replicas = reader.number(node, "replicaCount")
    if node.missing or replicas is None:
        if node.missing:
            text = f"Pool {index} has no replicaCount, which the API reads as 0."
            reader.add(pool, "GPU007", text, "Set replicaCount to 1.", "warning")
        return 1 if node.missing else None
    if index == 0 and replicas < 1:
        text = f"Pool 0 is the chief and has exactly 1 replica, not {replicas}."
        reader.add(node, "GPU007", text, "Set replicaCount to 1.")
    elif index == 0 and replicas > 1:
        text = f"Pool 0 is the chief and has exactly 1 replica, not {replicas}."
        reader.add(node, "GPU007", text, f"Move the other {replicas - 1} to pool 1.")
    elif replicas == 0:
        text = f"Pool {index} ({ROLES[min(index, 3)]}) has 0 replicas."
        reader.add(node, "GPU007", text, "Leave the pool out, or write {} to skip it.")
    return replicas


def _check_provisioning(reader: Reader, terms: Terms, pool: Pool) -> None:
    """Reports a machine that is not offered with the job's strategy or in its regions."""
    spec = UNKNOWN if terms.is_persistent else pool.spec
    if spec.is_tpu and provisioning.is_preemptible(terms.strategy):
        reader.report(pool.at, *tpu_rules.spot(*spec.names, spec.topology))
    if spec.combination and terms.strategy_known:
        strategy = terms.scheduling.get("strategy")
        problems = provisioning.strategy(spec.combination, terms.strategy, pool.is_reserved)
        reader.report(strategy if strategy.value is not None else pool.at, *problems)
    judge_region(reader.judgement, reader.step, terms.location or pool.at, spec, terms.regions, serving=False)


def judge_reservation(reader: Reader, terms: Terms, spec: Node) -> bool | None:
    """Judges the reservation. Returns whether the machine may come from one; None if that is unknown."""
    node = spec.get("reservationAffinity")
    affinity = reader.object(node, "reservationAffinity")
    if affinity is None:
        return None if not node.known else False
    reader.keys(affinity, "reservationAffinity")
    kind, key, values = affinity.get("reservationAffinityType"), affinity.get("key"), affinity.get("values").decode()
    name = _read_affinity(reader, kind)
    items = list(values.items())
    names = [text for item in items if (text := item.text()) is not None]
    if not kind.known:
        return None
    problems = job_fields.reservation(name, reader.text(key, "key"), names, terms.strategy, terms.regions)
    is_whole = len(names) == len(items) and values.known and key.known
    known_problems = [each for each in problems if is_whole or not each.field.endswith((".key", ".values"))]
    reader.report(affinity, *known_problems)
    return name in ("ANY_RESERVATION", "SPECIFIC_RESERVATION")


def _read_affinity(reader: Reader, kind: Node) -> str:
    """Returns the name of the affinity; it may be given as a number of the enum."""
    if isinstance(kind.value, int) and not isinstance(kind.value, bool):
        return job_fields.AFFINITIES[kind.value] if 0 <= kind.value < 4 else str(kind.value)
    return reader.text(kind, "reservationAffinityType") or "TYPE_UNSPECIFIED"


def judge_disk(reader: Reader, pool: Node, spec: MachineSpec) -> tuple[str, int] | None:
    """Judges the boot disk of a pool; returns its type and GB, or None if they are unknown."""
    node = pool.get("diskSpec")
    disk = reader.object(node, "diskSpec") or Node({}, node.path, node.scope)
    reader.keys(disk, "diskSpec")
    kind, size = disk.get("bootDiskType"), disk.get("bootDiskSizeGb")
    disk_type, size_gb = reader.text(kind, "bootDiskType"), reader.number(size, "bootDiskSizeGb") or None
    for problem in job_fields.disk(spec.machine, disk_type, size_gb):
        parts = {"bootDiskType": kind, "bootDiskSizeGb": size}
        reader.report(parts[problem.field], problem, parts=parts)
    if spec.machine is None or not (node.known and kind.known and size.known):
        return None
    default_type, default_gb = job_fields.default_disk(spec.machine)
    return disk_type or default_type, size_gb or default_gb


#: Commands that start a process for each GPU.
_LAUNCH_PATTERNS = (
    "torchrun", "torch.distributed", "deepspeed", "accelerate", "mpirun", "horovodrun", "spawn", "launch",
    "MirroredStrategy", "nproc", "processes", "ray", "strategy",
)  # fmt: skip


def judge_body(reader: Reader, pool: Node, spec: MachineSpec, *, is_chief: bool) -> None:
    """Judges containerSpec or pythonPackageSpec: the image, and the start on several GPUs."""
    container = reader.object(pool.get("containerSpec"), "containerSpec")
    package = reader.object(pool.get("pythonPackageSpec"), "pythonPackageSpec")
    if container is not None and package is not None:
        text = "A pool runs containerSpec or pythonPackageSpec, not both."
        reader.add(package, "GPU007", text, "Keep one of them.")
    body = container if container is not None else package
    if body is not None:
        reader.variables(body.get("env"))
    if body is None:
        if pool.get("containerSpec").known and pool.get("pythonPackageSpec").known:
            text = "The pool has neither containerSpec nor pythonPackageSpec: it has nothing to run."
            reader.add(pool, "GPU007", text, "Add containerSpec.imageUri.")
        return
    field = "imageUri" if container is not None else "executorImageUri"
    node = body.get(field)
    image = reader.text(node, field)
    # A program may pass it to another function: a component's own image, or a script that is built into an image.
    if node.value in (None, "") and node.known and not node.assumed and reader.judgement.document.places is None:
        text = f"The pool has no {field}: it has nothing to run."
        reader.add(node if node.value == "" else body, "GPU007", text, "Name the image.")
    command = _read_command(reader, body)
    problems = container_facts.image_problems(image or "", command, spec.gpu, spec.machine)
    reader.report(node, *problems)
    script = spec.machine.nccl_script if spec.machine and not is_chief else None
    if spec.machine and script and command.strip() and script not in command:
        text = f"{spec.machine.name} has GPUDirect-RDMA, which NCCL must be configured to use between machines."
        fix = f"Begin the command with: source {script}"
        reader.add(body.get("command"), "GPU022", text, fix)
    if is_chief and "horovodrun" in command:
        text = "horovodrun reaches other machines over SSH, which the replicas of a custom job do not accept."
        fix = f"For {job_fields.HOROVOD}; start it with torchrun --nproc_per_node={spec.count or 1}."
        reader.add(body.get("command") if body.get("command").value else body, "GPU022", text, fix)
    if is_chief and spec.combination and spec.count > 1:
        _check_processes(reader, body, command, spec)


def _read_command(reader: Reader, body: Node) -> str:
    """Returns command and arguments as one text; for the launching text of this library, the command that it starts."""
    text = reader.words(body, "command", "args")
    script = read(body.value) if isinstance(body.value, dict) else None
    if script is None:
        return text
    return " ".join([*script.command, "" if script.launch == "plain" else f"launch={script.launch}"])


def _check_processes(reader: Reader, body: Node, command: str, spec: MachineSpec) -> None:
    env = reader.words(body, "env")
    at = body.get("command") if body.get("command").value else body
    # A kfp component's function may start processes, which is not visible here.
    is_component = "executor_main" in command
    if command.strip() and not is_component and not any(word in command for word in _LAUNCH_PATTERNS):
        text = f"The command starts one process for {spec.count} GPUs; DDP uses one GPU per process."
        fix = f"Start it with torchrun --nproc_per_node={spec.count}."
        reader.add(at, "GPU022", text, fix)
    if spec.machine is not None and spec.machine.nccl and "NCCL_P2P_LEVEL" not in env:
        text = f"On {spec.machine.name} NCCL needs a limit for peer-to-peer traffic."
        reader.add(body, "GPU022", text, f"Set {spec.machine.nccl} in env.")
    text = f"{spec.count} GPUs mean many DataLoader workers, and /dev/shm cannot be made larger."
    fix = "Keep workers few, or torch.multiprocessing.set_sharing_strategy('file_system')."
    if "sharing_strategy" not in command:
        reader.add(body, "GPU023", text, fix)


def judge_resource_pools(judgement: Judgement, step: str, resource: Node, location: Node | None) -> None:
    """Judges every pool of a persistent resource, but not quota and strategy, which it has itself."""
    reader, pools = Reader(judgement, step), resource.get("resourcePools").decode()
    if not pools.known:
        judgement.report_unknown(step, pools, "resourcePools")
    elif not isinstance(pools.value, list) or not pools.value:
        judgement.report_malformed(step, pools, "resourcePools", "a list with at least one pool")
    region = location.text() if location is not None else None
    regions = [region] if region else list(judgement.regions)
    terms = Terms(location if region else None, regions, Node(None), "STANDARD", False)
    is_ray = bool(resource.get("resourceRuntimeSpec").get("raySpec").value)
    for index, item in enumerate(pools.items()):
        spend("steps")
        pool = reader.object(item, f"resourcePools[{index}]")
        if pool is not None:
            _judge_resource_pool(reader, terms, pool, is_ray)


def _judge_resource_pool(reader: Reader, terms: Terms, pool: Node, is_ray: bool) -> None:
    reader.keys(pool, "resourcePool")
    replicas = _count_resource_replicas(reader, pool, 0 if is_ray else 1)
    node = reader.object(pool.get("machineSpec"), "machineSpec")
    if node is None:
        if pool.get("machineSpec").missing:
            reader.report_malformed(pool.get("machineSpec"), "machineSpec", "given")
        return
    reader.keys(node, "machineSpec")
    is_reserved = judge_reservation(reader, terms, node)
    spec = judge_machine(reader.judgement, reader.step, node, conditions=Conditions(tuple(terms.regions)))
    judge_region(
        reader.judgement, reader.step, terms.location or node.get("machineType"), spec, terms.regions, serving=False
    )  # fmt: skip
    judge_disk(reader, pool, spec)
    usd, region = price_of(spec, terms.regions, "reservation" if is_reserved else "standard")
    # A persistent resource is billed until it is deleted, so its cost has no maximum.
    reader.judgement.steps.append(spec.row(reader.step, replicas, "STANDARD", usd, region))


def _count_resource_replicas(reader: Reader, pool: Node, least_allowed: int) -> int | None:
    """Returns the maximum number of machines of the pool; None if only the run knows it."""
    count, scaling = pool.get("replicaCount"), reader.object(pool.get("autoscalingSpec"), "autoscalingSpec")
    replicas = reader.number(count, "replicaCount")
    if replicas == 0 and scaling is None:
        text = "The pool has 0 replicas: no machine can run a job."
        reader.add(count, "GPU007", text, "Set replicaCount to 1 or more.")
    if scaling is None:
        return replicas if replicas is not None or not count.missing else 1
    reader.keys(scaling, "autoscalingSpec")
    least, most = (reader.number(scaling.get(name), name) for name in ("minReplicaCount", "maxReplicaCount"))
    if least is not None and least < least_allowed:
        text = f"minReplicaCount is {least}; only Ray clusters may go down to 0."
        reader.add(scaling.get("minReplicaCount"), "GPU007", text, "Set minReplicaCount to 1.")
    if least is not None and most is not None and most <= least:
        text = f"maxReplicaCount is {most}; it must be above minReplicaCount, which is {least}."
        reader.add(scaling.get("maxReplicaCount"), "GPU007", text, f"Set it to {least + 1} or more.")
    elif replicas is not None and most is not None and most < replicas:
        text = f"maxReplicaCount is {most}, below the replicaCount of {replicas}."
        fix = f"Set it to {replicas} or more."
        reader.add(scaling.get("maxReplicaCount"), "GPU007", text, fix)
    return most
