"""A check that the processes of a job connect to each other; otherwise each one trains its own model."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import time
from typing import Any

from vgp.protocol.launching.rank import NEVER, Rank

#: Seconds between two checks at first and later, and length of the first phase. Linux shows ended connections for 60 s.
SOON_S, LATER_S, FIRST_S = 0.05, 2.0, 60.0
LISTENS = "0A"
HINTS = {
    "torchrun": ": torch.distributed.init_process_group(), or Lightning's Trainer(num_nodes=..., devices=...)",
    "jax": ": jax.distributed.initialize()",
}


class Meeting:
    """A search for a connection between two processes of the job, or between two of several nodes.

    Linux shows connections and their owners; on other systems there is no warning.
    """

    def __init__(self, ranks: list[Rank], launch: str):
        self.ranks, self.launch, self.begin, self.next_at = ranks, launch, time.monotonic(), 0.0
        self.nodes = ranks[0].node.nodes if ranks else 0
        #: Whether the other nodes are other machines.
        self.is_remote = len({rank.node.text for rank in ranks}) < self.nodes
        self.seen: set[tuple[tuple[str, int], tuple[str, int]]] = set()
        several = self.nodes > 1 or len(ranks) > 1
        #: Whether the search has ended.
        self.is_over = not several or any(rank.node.has_servers for rank in ranks) or not lists_sockets()

    def look(self, last: bool = False) -> None:
        now = time.monotonic()
        if self.is_over or (now < self.next_at and not last):
            return
        self.next_at = now + (SOON_S if now < self.begin + FIRST_S else LATER_S)
        connections = [link for link in connections_now() if link[2] != LISTENS]
        self.is_over = self._joins_port(connections) or self._joins_ranks(connections)

    def warning(self) -> str:
        """Returns a warning if the processes of a finished job never connected, or ""."""
        self.look(last=True)
        if self.is_over:
            return ""
        count, unit, end = (self.nodes, "node", "s") if self.nodes > 1 else (len(self.ranks), "process", "es")
        return (
            f"warning: the {count} {unit}{end} never connected to each other: each {unit} has trained its own model, "
            "or repeated the work, and may have overwritten files of the others. Connect them in the script"
            f"{HINTS.get(self.launch, '')}. Ignore this if each works alone on purpose."
        )

    def _joins_port(self, connections: list[Any]) -> bool:
        """Whether there is a connection to the rendezvous, open or recently ended."""
        port = self.ranks[0].node.port
        return any(port in (a[1], b[1]) and not (self.is_remote and a[0] == b[0]) for a, b, *_ in connections)

    def _joins_ranks(self, connections: list[Any]) -> bool:
        """Whether two processes are connected at any port; reads the owners of new connections only."""
        open_ones = {(here, there): inode for here, there, _, inode in connections if inode != "0"}
        new = [ends for ends in open_ones if ends not in self.seen and (self.is_remote or ends[::-1] in open_ones)]
        if not new:
            return False
        self.seen.update(new)
        owners = self._owners()
        if self.is_remote:
            return any(
                open_ones[ends] in owners and is_private(ends[1][0]) and ends[0][0] != ends[1][0] for ends in new
            )
        pairs = [(owners.get(open_ones[ends]), owners.get(open_ones[ends[::-1]])) for ends in new]
        return any(None not in pair and self._part(pair[0]) != self._part(pair[1]) for pair in pairs)

    def _part(self, pid: int | None) -> int | None:
        """Returns the unit that must connect: the node if there are several, else the process."""
        return next(rank.node.number for rank in self.ranks if rank.pid == pid) if self.nodes > 1 else pid

    def _owners(self) -> dict[str, int]:
        """Returns the rank that owns each socket, directly or through a child process."""
        roots = {rank.pid for rank in self.ranks if rank.gone_at == NEVER}
        parents: dict[int, int] = {}
        found: dict[str, int] = {}
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{pid}/stat", errors="replace") as file:
                parents[pid] = int(file.read().rpartition(")")[2].split()[1])
        for pid in parents:
            root = pid
            while root and root not in roots:
                root = parents.get(root, 0)
            with contextlib.suppress(OSError):
                for number in os.listdir(f"/proc/{pid}/fd") if root else ():
                    with contextlib.suppress(OSError):
                        found[os.readlink(f"/proc/{pid}/fd/{number}")] = root
        return {link[8:-1]: root for link, root in found.items() if link.startswith("socket:[")}


def connections_now() -> list[Any]:
    found: list[Any] = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            with open(f"/proc/net/{table}", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
            found += [(end_of(row[1]), end_of(row[2]), row[3], row[9]) for row in rows]
    return found


def end_of(text: str) -> tuple[str, int]:
    """Parses host and port of 0100007F:1F90, with the bytes of each host word reversed."""
    host, _, port = text.partition(":")
    words = [bytes.fromhex(host[start : start + 8])[::-1] for start in range(0, len(host), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(port, 16)


def is_private(host: str) -> bool:
    """Whether the host may be another machine of the job: private, not loopback, not link-local."""
    address = ipaddress.ip_address(host)
    return address.is_private and not (address.is_loopback or address.is_link_local or address.is_unspecified)


def lists_sockets() -> bool:
    """Whether the system's tables show a socket of this process, as on Linux."""
    with contextlib.suppress(OSError), socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        own = listener.getsockname()
        return any(here == own and state == LISTENS for here, _, state, _ in connections_now())
    return False
