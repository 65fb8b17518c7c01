"""The processes of a node: how many, on which GPUs, with which variables."""

from __future__ import annotations

from collections.abc import Mapping

from vgp.protocol.launching.gpus import gpus, share
from vgp.protocol.launching.machines import Node
from vgp.protocol.launching.rank import Rank
from vgp.protocol.launching.request import Mistake, say, whole
from vgp.protocol.launching.variables import jax_variables, plain_variables, tensorflow_variables, torch_variables


def ranks_of(node: Node, launch: str, nodes: list[Node], environment: Mapping[str, str]) -> list[Rank]:
    """The processes of one of the nodes on this machine, none of a role that other frameworks than TensorFlow lack."""
    devices, shown = gpus(environment), {}
    if devices and len(nodes) > 1:
        devices = share(devices, nodes.index(node), len(nodes))
        shown = {"CUDA_VISIBLE_DEVICES": ",".join(devices)}
    count = whole(environment, "TRAINING_NPROC", len(devices) or 1, least=1)
    if 0 < len(devices) < count:
        raise Mistake(f"TRAINING_NPROC={count}, but a node has {len(devices)} GPUs, and each takes one process.")
    if launch != "tensorflow" and node.number is None:
        say(f"{node.role} {node.index} starts nothing: launch = {launch!r} has no such role.")
        return []
    by_name = variables_by_name(node, launch, count, len(devices), environment)
    has_others = len(nodes) > 1 or len(by_name) > 1
    return [Rank(node, name, {**shown, **variables}, count, has_others) for name, variables in by_name.items()]


def variables_by_name(
    node: Node, launch: str, count: int, devices: int, environment: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """The variables of each process, by the name that its messages have."""
    if launch == "torchrun":
        several = [torch_variables(node, local, count, environment) for local in range(count)]
        return {f"rank {variables['RANK']}": variables for variables in several}
    if launch == "tensorflow":
        return {"chief" if node.role == "chief" else f"{node.role} {node.index}": tensorflow_variables(node)}
    own = jax_variables(node, devices, environment) if launch == "jax" else plain_variables(node)
    return {f"node {node.number}": own}
