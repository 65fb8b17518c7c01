"""The machines of the job, from Vertex AI's CLUSTER_SPEC."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections.abc import Mapping

from vgp.protocol.launching.request import Mistake, integer, log

#: Roles of the machine pools, in order.
ROLES = {"workerpool0": "chief", "workerpool1": "worker", "workerpool2": "ps", "workerpool3": "evaluator"}
FORM = '{"cluster": {"workerpool0": ["HOST:PORT"], ...}, "task": {"type": "workerpool0", "index": 0}}'


class Node:
    """One machine of the job; `number` counts the training machines and is None for a server."""

    def __init__(self, text: str):
        try:
            self._read(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise Mistake(f"CLUSTER_SPEC cannot be read ({reason}); Vertex AI sets it to {FORM}.") from None
        self.text, self.nodes = text, len(self.trainers)
        self.has_servers = "workerpool2" in self.pools

    def _read(self, spec: dict[str, dict[str, str]]) -> None:
        self.pools = {pool: list(map(str, hosts)) for pool, hosts in spec["cluster"].items() if hosts}
        pool, self.index = spec["task"]["type"], int(spec["task"]["index"])
        self.role, chiefs = ROLES[pool], self.pools["workerpool0"]
        self.trainers = chiefs + self.pools.get("workerpool1", [])
        self.chief, self.port = host_and_port(chiefs[0])
        self.number = {"chief": 0, "worker": len(chiefs) + self.index}.get(self.role)
        if not 0 <= self.index < len(self.pools.get(pool, [])):
            raise ValueError(f"there is no task {self.index} of {pool}")


def host_and_port(address: str) -> tuple[str, int]:
    """Splits HOST:PORT or [IPv6]:PORT; a host alone gets Vertex AI's port."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        host, port = address, "2222"
    return host.strip("[]"), int(port)


def cluster(environment: Mapping[str, str]) -> list[Node]:
    """Returns the nodes that this launcher starts: this machine, or a whole local cluster."""
    if environment.get("CLUSTER_SPEC"):
        return [Node(environment["CLUSTER_SPEC"])]
    workers = integer(environment, "TRAINING_NODES", 1, least=1) - 1
    counts = (1, workers, integer(environment, "TRAINING_PARAMETER_SERVERS", 0, least=0))
    ports = free_ports(sum(counts))
    pools = {pool: [f"127.0.0.1:{ports.pop()}" for _ in range(count)] for pool, count in zip(ROLES, counts) if count}
    tasks = [{"type": pool, "index": index} for pool in pools for index in range(len(pools[pool]))]
    return [Node(json.dumps({"cluster": pools, "task": task, "environment": "local"})) for task in tasks]


def free_ports(count: int) -> list[int]:
    """Returns free ports below the range of outgoing connections."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            listener, port = held.enter_context(socket.socket()), 20000 + int.from_bytes(os.urandom(2), "big") % 12000
            with contextlib.suppress(OSError):
                listener.bind(("127.0.0.1", port))
                ports.append(port)
    return ports


def warn_of_port(node: Node) -> None:
    """Warns if the port of the rendezvous is taken; the command may not need it."""
    if node.number != 0:
        return
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", node.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                log(f"port {node.port} of this machine, the rendezvous of the processes, is taken by another program.")
