"""The machines of a legacy file as the worker pools of a custom job: machine, disk, and what they run."""

from typing import Any

from vgp.base.documents.node import Node
from vgp.check.convert.legacy_input import LegacyInput
from vgp.check.legacy import Role
from vgp.check.sources.account import IMAGE
from vgp.machines.placement.compatibility import NO_ACCELERATOR

_POOLS = ("pool 0, the chief", "pool 1, the workers", "pool 2, the parameter servers", "pool 3, the evaluators")


def worker_pools(legacy: LegacyInput) -> list[dict[str, Any]]:
    """A pool for each role, and {} for one that is left out before another."""
    tier = legacy.take(legacy.node.get("scaleTier")).text()
    if tier:
        legacy.result.became("scaleTier", f"{tier}: the machines of the worker pools")
    indexes = range(max(legacy.roles, default=-1) + 1)
    return [_pool(legacy, index, legacy.roles[index]) if index in legacy.roles else {} for index in indexes]


def _pool(legacy: LegacyInput, index: int, role: Role) -> dict[str, Any]:
    machine: dict[str, Any] = {"machineType": role.machine_type}
    kind = None if role.accelerator_type in NO_ACCELERATOR else role.accelerator_type
    if kind or role.accelerator_count:
        # Half of a request is passed on: the check of the result names the other half.
        machine |= {"acceleratorType": kind} if kind else {}
        machine["acceleratorCount"] = role.accelerator_count
    gpus = f" with {role.accelerator_count} x {kind}" if kind else ""
    name = f"{role.legacy_type} = " if role.legacy_type else ""
    note = f" ({role.note})" if role.note else ""
    replicas = role.replicas or 1
    text = f"{_POOLS[index]}: {replicas} x {name}{role.machine_type}{gpus}{note}"
    legacy.result.became(f"{role.name}Type", text)
    _take_machine(legacy, role)
    return {"machineSpec": machine, "replicaCount": replicas, **_disk(legacy, role), **_body(legacy, role, index)}


def _take_machine(legacy: LegacyInput, role: Role) -> None:
    legacy.take(role.type_at)
    if role.type_at.path[-1:] != ("scaleTier",):
        legacy.take(legacy.node.get(f"{role.name}Count"))
    accelerator = role.config_at.get("acceleratorConfig").decoded()
    if accelerator.value is not None:
        legacy.take(accelerator.get("type"))
        legacy.take(accelerator.get("count"))
        legacy.result.became(f"{role.name}Config.acceleratorConfig", "machineSpec.acceleratorType, acceleratorCount")


def _disk(legacy: LegacyInput, role: Role) -> dict[str, Any]:
    disk = legacy.reader.object(role.config_at.get("diskConfig"), "diskConfig")
    if disk is None:
        return {}
    legacy.result.became(f"{role.name}Config.diskConfig", "diskSpec")
    values = {
        "bootDiskType": legacy.reader.text(legacy.take(disk.get("bootDiskType")), "bootDiskType"),
        "bootDiskSizeGb": legacy.reader.number(legacy.take(disk.get("bootDiskSizeGb")), "bootDiskSizeGb"),
    }
    return {"diskSpec": {name: value for name, value in values.items() if value}}


def _body(legacy: LegacyInput, role: Role, index: int) -> dict[str, Any]:
    """containerSpec where an image is named (the master's serves all roles), else pythonPackageSpec."""
    args = legacy.texts(legacy.node.get("args"))
    if legacy.node.get("jobDir").text():
        args.append(f"--job-dir={legacy.node.get('jobDir').text()}")
    own = legacy.reader.text(legacy.take(role.config_at.get("imageUri")), "imageUri")
    image = own or legacy.reader.text(legacy.node.get("masterConfig").get("imageUri"), "imageUri")
    if own:
        legacy.result.became(f"{role.name}Config.imageUri", "containerSpec.imageUri")
    package = None if image else _package(legacy, role, args)
    if package is not None:
        return {"pythonPackageSpec": package}
    if not image and index == 0:
        legacy.result.became("imageUri", f"not given: put your image for {IMAGE} in containerSpec.imageUri")
    return {"containerSpec": {"imageUri": image or IMAGE, **_commands(legacy, role, args, index)}}


def _package(legacy: LegacyInput, role: Role, args: list[str]) -> dict[str, Any] | None:
    """A pythonPackageSpec; None where the file names no code."""
    uris, module = legacy.texts(legacy.node.get("packageUris")), legacy.text("pythonModule")
    if not uris and not module:
        return None
    image = _prebuilt(legacy.node, bool(role.accelerator_count))
    body = {"executorImageUri": image, "packageUris": uris, "pythonModule": module or ""}
    return body | ({"args": args} if args else {})


def _commands(legacy: LegacyInput, role: Role, args: list[str], index: int) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for name, target in (("containerCommand", "command"), ("containerArgs", "args")):
        items = legacy.texts(role.config_at.get(name))
        if items:
            body[target] = items
            legacy.result.became(f"{role.name}Config.{name}", f"containerSpec.{target}")
    if args and "args" in body:
        legacy.result.dropped("args", f"{_POOLS[index]}, has containerArgs instead: {' '.join(args)}")
    return {"args": args, **body} if args else body


def _prebuilt(node: Node, gpu: bool) -> str:
    """Google's TensorFlow image of the runtime version. https://docs.cloud.google.com/vertex-ai/docs/training/pre-built-containers"""
    version = str(node.get("runtimeVersion").value or "")
    major, _, minor = version.partition(".")
    if major != "2" or not minor.isdigit():
        return IMAGE
    python = ".py310" if int(minor) >= 12 else ""
    return f"us-docker.pkg.dev/vertex-ai/training/tf-{'gpu' if gpu else 'cpu'}.2-{minor}{python}:latest"
