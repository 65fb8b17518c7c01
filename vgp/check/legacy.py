"""AI Platform Training's trainingInput files: recognition, and their roles as machines of today.

The service is shut down; `vgp convert` turns such a file into a custom job.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from vgp.base.documents.bounded_text import FieldPath
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Node
from vgp.check import terms
from vgp.check.judgement import Judgement, Reader
from vgp.machines.catalog import catalog

#: Legacy role -> worker pool of a custom job.
ROLES = {"master": 0, "worker": 1, "parameterServer": 2, "evaluator": 3}
_KIND_FIELDS = ("scaleTier", "masterType", "masterConfig", "workerType", "workerConfig", "parameterServerType")


@dataclass(frozen=True)
class Role:
    """A group of machines of a legacy job, with today's machine types."""

    name: str
    replicas: int | None
    machine_type: str | None
    accelerator_type: str | None
    accelerator_count: int
    #: The legacy machine type, such as complex_model_m_gpu; empty for a Compute Engine type.
    legacy_type: str | None
    note: str
    type_at: Node
    config_at: Node


def recognises(data: object) -> bool:
    if not isinstance(data, dict):
        return False
    inner = data.get("trainingInput")
    return isinstance(inner, dict) or any(key in data for key in _KIND_FIELDS)


def training_input(data: JsonObject) -> Node:
    """Returns the file's trainingInput with its path."""
    if isinstance(data.get("trainingInput"), dict):
        return Node(data["trainingInput"], ("trainingInput",))
    return Node(data)


def roles(node: Node, reader: Reader) -> Iterator[Role]:
    """Yields the machines of the file as roles; unreadable ones are reported."""
    tier_node = node.get("scaleTier")
    tier = reader.text(tier_node, "scaleTier") or ("CUSTOM" if node.get("masterType").value else "BASIC")
    tiers = catalog.document("legacy.json")["scale_tiers"]
    if tier != "CUSTOM" and tier not in tiers:
        fix = f"Tiers: {', '.join([*tiers, 'CUSTOM'])}."
        reader.add(tier_node, "GPU025", f"No scale tier is called '{tier}'.", fix)
        return
    for name in ROLES:
        role = _read_role(node, reader, name, None if tier == "CUSTOM" else tiers[tier])
        if role is not None:
            yield role


def _read_role(node: Node, reader: Reader, name: str, tier: JsonObject | None) -> Role | None:
    config = reader.object(node.get(f"{name}Config"), f"{name}Config")
    config = config if config is not None else Node(None, (*node.path, f"{name}Config"))
    replicas = 1 if name == "master" else reader.number(node.get(f"{name}Count"), f"{name}Count")
    if tier is None:
        return _own_machine(node, reader, name, replicas, config)
    machine = tier.get(name)
    if machine is None:
        return None
    kind, replicas = (machine, 1) if isinstance(machine, str) else (machine[0], machine[1])
    return _resolve_role(reader, name, kind, replicas, node.get("scaleTier"), config)


def _own_machine(node: Node, reader: Reader, name: str, replicas: int | None, config: Node) -> Role | None:
    """Returns the role of a CUSTOM tier, whose machine is in the file."""
    kind_node = node.get(f"{name}Type")
    kind = reader.text(kind_node, f"{name}Type")
    if name != "master" and not replicas:
        return None
    if kind is None:
        if kind_node.missing:
            text = f"{name}Type is required with scaleTier CUSTOM; it is missing."
            is_file = reader.judgement.document.places is None  # a gcloud command may have a flag for it
            reader.add(kind_node, "GPU025", text, severity="warning" if is_file else "")
        return None
    return _resolve_role(reader, name, kind, replicas, kind_node, config)


def _resolve_role(reader: Reader, name: str, kind: str, replicas: int | None, type_at: Node, config: Node) -> Role:
    known = catalog.document("legacy.json")["machine_types"].get(kind, {})
    own = reader.object(config.get("acceleratorConfig"), "acceleratorConfig")
    accelerator, count = known.get("accelerator_type"), known.get("accelerator_count", 0)
    if own is not None:
        accelerator = reader.accelerator(own.get("type")) or accelerator
        count = reader.number(own.get("count"), "count") or 0
    machine_type = known.get("machine_type", kind)
    legacy_type, note = kind if known else None, known.get("note", "")
    return Role(name, replicas, machine_type, accelerator, count, legacy_type, note, type_at, config)


def judge(judgement: Judgement) -> None:
    """Judges a legacy file as the custom job that `vgp convert` would write."""
    node = training_input(judgement.document.data)
    step = Node(judgement.document.data).get("jobId").text() or "trainingInput"
    text = "AI Platform Training is shut down: no service takes this file any more."
    judgement.add(step, node, "GPU027", text, "Convert it: vgp convert FILE.")
    for role in roles(node, Reader(judgement, step)):
        _judge_role(judgement, step, role)


def _judge_role(judgement: Judgement, step: str, role: Role) -> None:
    path: FieldPath = role.config_at.path if role.config_at.value is not None else role.type_at.path
    values = {
        "machineType": role.machine_type,
        "acceleratorType": role.accelerator_type,
        "acceleratorCount": role.accelerator_count,
    }
    terms.judge_lone_machine(judgement, step, Node(values, path), f"{step}/{role.name}", role.replicas)
