"""Messages between the launchers of several machines: a rank failed, a machine is lost, or all ranks have ended.

The launchers share the key-value store of rank 0 on the chief, and write a heartbeat every half second. A machine that
is silent for `lost_after_s` counts as lost. The chief checks the heartbeats of the others; the others check that the
chief answers. This runs in a thread, because a dead network blocks its caller.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from vgp.base.exits import MachineLost
from vgp.protocol.cluster import Cluster
from vgp.train.processes.launched_rank import Ending

POLL_S = 0.5
_FAILURE = "launcher/failure"
_FINISHED = "launcher/finished"
_LATE = "launcher/late"
#: The position of a machine whose ranks have ended, later than every other.
AFTER_ALL = (1 << 62, 0)
#: Seconds for which rank 0 keeps the store, so that the other launchers can read that all ranks have ended.
_LAST_S = 5.0
#: Seconds of one attempt to connect to the chief; Linux sends three requests in that time.
_TRY_S = 5.0


class Control(threading.Thread):
    """The connection of this machine's launcher to the others, for `vgp.train.processes.rank_watch`."""

    def __init__(self, place: Cluster, timeout_s: float, lost_after_s: float):
        super().__init__(name="control", daemon=True)
        self.place, self.timeout_s, self.lost_after_s = place, timeout_s, lost_after_s
        #: The first failure that a machine has published, with `kind` and `text`.
        self.failure: Ending | None = None
        self.last_heard = float("inf")
        #: Whether the chief's store has closed, rather than being silent.
        self.gone = False
        self.outgoing: Ending | None = None
        self.published = threading.Event()
        #: Returns the position of this machine's last rank, as `vgp.train.processes.hang_diagnosis.Trace.position`.
        self.position: Callable[[], tuple[int, int]] = lambda: AFTER_ALL
        #: Whether a rank on any machine has timed out waiting for another.
        self.late = False
        #: The position of the last rank of all machines, if `late`.
        self.last_position = AFTER_ALL
        #: Whether all ranks of this machine have succeeded; rank 0 may then still have work.
        self.left = False
        #: Whether rank 0 has finished its work too.
        self.finished = False
        self._heard: dict[int, tuple[bytes, float]] = {}

    @property
    def lost(self) -> bool:
        """Whether the chief has been silent for `lost_after_s`, or its store has closed."""
        return time.monotonic() - self.last_heard > self.lost_after_s

    @property
    def loss(self) -> str:
        """The lost machine, in words."""
        if quiet := ", ".join(self.quiet()):
            return f"the machine {quiet} is gone"
        if self.gone:
            return f"the chief {self.place.chief} is gone"
        return f"the chief {self.place.chief} has been silent for {self.lost_after_s:g} s"

    def quiet(self) -> list[str]:
        """Returns, on the chief, the hosts that have missed several heartbeats; none if all are silent."""
        if self.lost:
            return []
        now = time.monotonic()
        late = [value for value, since in self._heard.values() if now - since > 4 * POLL_S]
        return [value.decode().split()[0] for value in late]

    def publish(self, failure: Ending | None) -> None:
        """Publishes this machine's failure (None = another machine's), and waits until the others can have read it."""
        if failure and self.failure is None and self.is_alive():
            self.outgoing = failure
            self.published.wait(10)
        if self.place.node == 0 and self.is_alive():
            time.sleep(3 * POLL_S)  # the store closes when rank 0 ends

    def run(self) -> None:
        try:
            await_chief(self.place, self.timeout_s)
            store = dist.TCPStore(self.place.chief, self.place.port, is_master=False, wait_for_workers=False,
                                  timeout=timedelta(seconds=self.timeout_s))  # fmt: skip
            self.last_heard = time.monotonic()
            while True:
                self._exchange(store)
                self.last_heard = time.monotonic()
                time.sleep(POLL_S)
        except (MachineLost, RuntimeError, ValueError):  # torch's DistNetworkError and DistStoreError are RuntimeErrors
            self.gone, self.last_heard = True, -float("inf")  # the chief is gone, has finished, or never started

    def _exchange(self, store: dist.TCPStore) -> None:
        step, stage = self.position()
        store.set(_alive_key(self.place.node), f"{self.place.host} {time.monotonic()} {step} {stage}")
        if self.left:
            store.set(_left_key(self.place.node), "")
        # Once all others have left, a failing machine must not end the chief's remaining work.
        is_alone = self.place.node == 0 and store.check([_left_key(node) for node in range(1, self.place.nodes)])
        if self.place.node == 0 and self.outgoing is None and not is_alone:
            self._check_heartbeats(store)
        if self.outgoing is not None:
            store.compare_set(_FAILURE, "", json.dumps(self.outgoing))
            self.published.set()
        if store.check([_FAILURE]) and not is_alone:
            self.failure = json.loads(store.get(_FAILURE))
        self._check_late(store)
        if self.left and store.check([_FINISHED]):
            self.finished = True
            store.set(_seen_key(self.place.node), "")

    def _check_late(self, store: dist.TCPStore) -> None:
        """Shares that a rank has timed out, and finds the position of the last rank of all machines."""
        if self.late:
            store.set(_LATE, "")
        if store.check([_LATE]):
            present = [key for key in map(_alive_key, range(self.place.nodes)) if store.check([key])]
            heartbeats = [store.get(key).decode().split() for key in present]
            self.last_position = min((int(step), int(stage)) for *_, step, stage in heartbeats)
            self.late = True

    def _check_heartbeats(self, store: dist.TCPStore) -> None:
        """Checks, on the chief, the heartbeat of every machine that has sent one before."""
        now = time.monotonic()
        for node in range(1, self.place.nodes):
            if not store.check([_alive_key(node)]) or store.check([_left_key(node)]):
                continue
            value = store.get(_alive_key(node))
            before, since = self._heard.get(node, (b"", now))
            self._heard[node] = (value, now if value != before else since)
            if now - self._heard[node][1] > self.lost_after_s:
                host = value.decode().split()[0]
                self.outgoing = {
                    "kind": "lost",
                    "text": f"machine {node} ({host}) has been silent for {self.lost_after_s:g} s",
                }


def await_chief(place: Cluster, timeout_s: float, try_s: float = _TRY_S) -> None:
    """Waits until the chief accepts connections; torch's own wait would end with a C++ stack.

    Each attempt resolves the name again, because a replaced machine keeps its name but not its address.

    Args:
        try_s: Timeout of an attempt, because an unused address never answers.

    Raises:
        MachineLost: the chief accepted no connection for `timeout_s`.
    """
    until = time.monotonic() + timeout_s
    while True:
        wait_s = min(try_s, max(POLL_S, until - time.monotonic()))
        try:
            socket.create_connection((place.chief, place.port), timeout=wait_s).close()
            return
        except OSError as error:  # the chief or its name may not exist yet
            if time.monotonic() >= until:
                raise MachineLost(
                    f"the chief {place.chief} did not come within {timeout_s:g} s at the start "
                    f"(rendezvous_timeout_s): {error}"
                ) from None
        time.sleep(POLL_S)


def publish_finish(store: dist.Store, place: Cluster) -> None:
    """Publishes, from rank 0, that its work is finished; the launchers of the other machines wait for that."""
    if place.nodes == 1:
        return
    store.set(_FINISHED, "")
    with contextlib.suppress(RuntimeError):  # a machine may be gone already
        store.wait([_seen_key(node) for node in range(1, place.nodes)], timedelta(seconds=_LAST_S))


def _alive_key(node: int) -> str:
    return f"launcher/alive/{node}"


def _left_key(node: int) -> str:
    return f"launcher/left/{node}"


def _seen_key(node: int) -> str:
    return f"launcher/seen/{node}"
