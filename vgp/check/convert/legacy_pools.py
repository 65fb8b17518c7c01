"""A legacy file during its conversion, and its machines as worker pools: machine, disk and container."""

from dataclasses import replace

from vgp.base.documents.bounded_text import FieldPath, format_path
from vgp.base.documents.document import Document
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Node
from vgp.check import legacy
from vgp.check.convert.conversion import Conversion, leaves, text_of
from vgp.check.judgement import Judgement, Reader
from vgp.check.legacy import Role
from vgp.check.sources.command_line import IMAGE
from vgp.machines.placement.compatibility import NO_ACCELERATOR

#: Output fields that the service writes into a job.
_OUTPUT = ("trainingOutput", "createTime", "state", "etag", "startTime", "endTime", "errorMessage", "jobPosition")


class LegacyInput:
    """A trainingInput and its Conversion; every field is converted, or noted as dropped."""

    def __init__(self, document: Document, judgement: Judgement) -> None:
        self.data = document.data
        self.node = replace(legacy.training_input(document.data), is_verbatim=True)
        self.reader, self.result = Reader(judgement, "trainingInput"), Conversion({"workerPoolSpecs": []})
        self.roles = {legacy.ROLES[role.name]: role for role in legacy.roles(self.node, self.reader)}
        #: Paths of all fields that are converted or noted.
        self.taken: set[FieldPath] = set()

    def take(self, node: Node) -> Node:
        self.taken.add(node.path)
        return node

    def text(self, name: str) -> str | None:
        """Reads a text field of the trainingInput."""
        return self.reader.text(self.take(self.node.get(name)), name)

    def texts(self, node: Node) -> list[str]:
        """Returns a list of arguments or addresses."""
        if node.value is None:
            return []
        self.take(node)
        if isinstance(node.value, list) and all(isinstance(item, str | int | float) for item in node.value):
            return [text_of(item) for item in node.value]
        self.reader.judgement.report_malformed(self.reader.step, node, str(node.path[-1]), "a list of texts")
        return []

    def note_unconverted(self) -> None:
        """Notes every field that was not converted."""
        inner = self.node.path
        for path in leaves(self.data):
            if not any(path[:depth] in self.taken for depth in range(1, len(path) + 1)):
                field = path[len(inner) :] if path[: len(inner)] == inner else path
                self.result.note_dropped(format_path(field), self._explain_drop(field))

    def _explain_drop(self, path: FieldPath) -> str:
        name = str(path[0]) if path else ""
        role = next((role for role in legacy.ROLES if name in (f"{role}Type", f"{role}Config", f"{role}Count")), None)
        if name in _OUTPUT:
            return "the service writes it"
        if path[-1:] == ("tpuTfVersion",):
            return "a custom job's image contains the software for its TPUs"
        tier = self.node.get("scaleTier").text()
        if role is not None and len(path) == 1 and tier and tier != "CUSTOM":
            return f"scaleTier {tier} determines the machines; this field needs CUSTOM"
        if role is not None and legacy.ROLES[role] not in self.roles:
            return f"the job has no such machines: they need {role}Type and {role}Count, or another scaleTier"
        if name in ("packageUris", "pythonModule"):
            return "the container image has its own code"
        return "custom jobs have no such field"


_POOLS = ("pool 0, the chief", "pool 1, the workers", "pool 2, the parameter servers", "pool 3, the evaluators")


def worker_pools(legacy: LegacyInput) -> list[JsonObject]:
    """Returns a pool for each role, and {} for an unused role before a used one."""
    tier = legacy.take(legacy.node.get("scaleTier")).text()
    if tier:
        legacy.result.note_change("scaleTier", f"{tier}: the machines of the worker pools")
    indexes = range(max(legacy.roles, default=-1) + 1)
    return [_convert_pool(legacy, index, legacy.roles[index]) if index in legacy.roles else {} for index in indexes]


def _convert_pool(legacy: LegacyInput, index: int, role: Role) -> JsonObject:
    machine: JsonObject = {"machineType": role.machine_type}
    kind = None if role.accelerator_type in NO_ACCELERATOR else role.accelerator_type
    if kind or role.accelerator_count:
        # An incomplete request is converted as it is: the check of the result reports the missing part.
        machine |= {"acceleratorType": kind} if kind else {}
        machine["acceleratorCount"] = role.accelerator_count
    gpus = f" with {role.accelerator_count} x {kind}" if kind else ""
    name = f"{role.legacy_type} = " if role.legacy_type else ""
    note = f" ({role.note})" if role.note else ""
    replicas = role.replicas or 1
    text = f"{_POOLS[index]}: {replicas} x {name}{role.machine_type}{gpus}{note}"
    legacy.result.note_change(f"{role.name}Type", text)
    _take_machine(legacy, role)
    return {
        "machineSpec": machine,
        "replicaCount": replicas,
        **_convert_disk(legacy, role),
        **_convert_body(legacy, role, index),
    }


def _take_machine(legacy: LegacyInput, role: Role) -> None:
    legacy.take(role.type_at)
    if role.type_at.path[-1:] != ("scaleTier",):
        legacy.take(legacy.node.get(f"{role.name}Count"))
    accelerator = role.config_at.get("acceleratorConfig").decode()
    if accelerator.value is not None:
        legacy.take(accelerator.get("type"))
        legacy.take(accelerator.get("count"))
        legacy.result.note_change(
            f"{role.name}Config.acceleratorConfig", "machineSpec.acceleratorType, acceleratorCount"
        )


def _convert_disk(legacy: LegacyInput, role: Role) -> JsonObject:
    disk = legacy.reader.object(role.config_at.get("diskConfig"), "diskConfig")
    if disk is None:
        return {}
    legacy.result.note_change(f"{role.name}Config.diskConfig", "diskSpec")
    values = {
        "bootDiskType": legacy.reader.text(legacy.take(disk.get("bootDiskType")), "bootDiskType"),
        "bootDiskSizeGb": legacy.reader.number(legacy.take(disk.get("bootDiskSizeGb")), "bootDiskSizeGb"),
    }
    return {"diskSpec": {name: value for name, value in values.items() if value}}


def _convert_body(legacy: LegacyInput, role: Role, index: int) -> JsonObject:
    """Returns containerSpec if an image is named (the master's image serves all roles), else pythonPackageSpec."""
    args = legacy.texts(legacy.node.get("args"))
    if legacy.node.get("jobDir").text():
        args.append(f"--job-dir={legacy.node.get('jobDir').text()}")
    own = legacy.reader.text(legacy.take(role.config_at.get("imageUri")), "imageUri")
    image = own or legacy.reader.text(legacy.node.get("masterConfig").get("imageUri"), "imageUri")
    if own:
        legacy.result.note_change(f"{role.name}Config.imageUri", "containerSpec.imageUri")
    package = None if image else _convert_package(legacy, role, args)
    if package is not None:
        return {"pythonPackageSpec": package}
    if not image and index == 0:
        legacy.result.note_change("imageUri", f"not given: replace {IMAGE} in containerSpec.imageUri")
    return {"containerSpec": {"imageUri": image or IMAGE, **_convert_commands(legacy, role, args, index)}}


def _convert_package(legacy: LegacyInput, role: Role, args: list[str]) -> JsonObject | None:
    """Returns a pythonPackageSpec; None if the file names no code."""
    uris, module = legacy.texts(legacy.node.get("packageUris")), legacy.text("pythonModule")
    if not uris and not module:
        return None
    image = _choose_prebuilt_image(legacy.node, bool(role.accelerator_count))
    body = {"executorImageUri": image, "packageUris": uris, "pythonModule": module or ""}
    return body | ({"args": args} if args else {})


def _convert_commands(legacy: LegacyInput, role: Role, args: list[str], index: int) -> JsonObject:
    body: JsonObject = {}
    for name, target in (("containerCommand", "command"), ("containerArgs", "args")):
        items = legacy.texts(role.config_at.get(name))
        if items:
            body[target] = items
            legacy.result.note_change(f"{role.name}Config.{name}", f"containerSpec.{target}")
    if args and "args" in body:
        legacy.result.note_dropped("args", f"{_POOLS[index]}, has containerArgs instead: {' '.join(args)}")
    return {"args": args, **body} if args else body


def _choose_prebuilt_image(node: Node, gpu: bool) -> str:
    """Returns Google's TensorFlow image of the runtime version.
    https://docs.cloud.google.com/vertex-ai/docs/training/pre-built-containers"""
    version = str(node.get("runtimeVersion").value or "")
    major, _, minor = version.partition(".")
    if major != "2" or not minor.isdigit():
        return IMAGE
    python = ".py310" if int(minor) >= 12 else ""
    return f"us-docker.pkg.dev/vertex-ai/training/tf-{'gpu' if gpu else 'cpu'}.2-{minor}{python}:latest"
