"""How the launchers of several machines tell each other that a rank failed, a machine is gone, or all is done.

They share the key-value store that rank 0 holds on the chief, and write to it every half second. A machine that has
not been heard of for `lost_after_s` counts as lost, on both sides of the cut: the chief looks at everyone's last word,
the others at the chief's answers. A thread, since a dead network blocks its caller.
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
from vgp.train.processes.child import Ending

POLL_S = 0.5
_FAILURE = "launcher/failure"
_FINISHED = "launcher/finished"
_LATE = "launcher/late"
#: A place behind every other: of a machine whose ranks have ended.
NOWHERE = (1 << 62, 0)
#: How long rank 0 keeps the store for the launchers of other machines, so that they can read that all is done.
_LAST_S = 5.0
#: How long one try to reach the chief may take: Linux asks an address three times in it.
_TRY_S = 5.0


class Control(threading.Thread):
    """This machine's line to the others, for `vgp.train.processes.watch`."""

    def __init__(self, place: Cluster, timeout_s: float, lost_after_s: float):
        super().__init__(name="control", daemon=True)
        self.place, self.timeout_s, self.lost_after_s = place, timeout_s, lost_after_s
        #: The first failure that any machine published: `kind` as in a report, and `text`.
        self.failure: Ending | None = None
        self.last_heard = float("inf")
        #: Whether the chief's store has ended, and was not merely silent.
        self.gone = False
        self.outgoing: Ending | None = None
        self.published = threading.Event()
        #: Where this machine's last rank is, as `vgp.train.processes.hang.Trace.position`.
        self.position: Callable[[], tuple[int, int]] = lambda: NOWHERE
        #: Set where a rank waited in vain for another; then it is so on every machine, with where the last rank is.
        self.late = False
        self.last_position = NOWHERE
        #: Set where all ranks have ended well; only the chief's may then have work left.
        self.left = False
        #: Whether the chief has finished its work as well.
        self.finished = False
        self._heard: dict[int, tuple[bytes, float]] = {}

    @property
    def lost(self) -> bool:
        """Whether the chief has been silent for too long, or its store is gone."""
        return time.monotonic() - self.last_heard > self.lost_after_s

    @property
    def loss(self) -> str:
        """What is lost, in words."""
        if quiet := ", ".join(self.quiet()):
            return f"the machine {quiet} is gone"
        if self.gone:
            return f"the chief {self.place.chief} is gone"
        return f"the chief {self.place.chief} has been silent for {self.lost_after_s:g} s"

    def quiet(self) -> list[str]:
        """On the chief: hosts that have missed several of their last words; none while it hears nobody."""
        if self.lost:
            return []
        now = time.monotonic()
        late = [value for value, since in self._heard.values() if now - since > 4 * POLL_S]
        return [value.decode().split()[0] for value in late]

    def publish(self, failure: Ending | None) -> None:
        """Tells the other machines of our failure, if it is ours; waits until they can have read whichever it is."""
        if failure and self.failure is None and self.is_alive():
            self.outgoing = failure
            self.published.wait(10)
        if self.place.node == 0 and self.is_alive():
            time.sleep(3 * POLL_S)  # the store goes when our ranks go

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
            self.gone, self.last_heard = True, -float("inf")  # the chief is gone, has finished, or never came

    def _exchange(self, store: dist.TCPStore) -> None:
        step, stage = self.position()
        store.set(_alive(self.place.node), f"{self.place.host} {time.monotonic()} {step} {stage}")
        if self.left:
            store.set(_left(self.place.node), "")
        # When all others have left, the chief's own work needs nobody: no machine that fails may end it.
        alone = self.place.node == 0 and store.check([_left(node) for node in range(1, self.place.nodes)])
        if self.place.node == 0 and self.outgoing is None and not alone:
            self._look_for_silence(store)
        if self.outgoing is not None:
            store.compare_set(_FAILURE, "", json.dumps(self.outgoing))
            self.published.set()
        if store.check([_FAILURE]) and not alone:
            self.failure = json.loads(store.get(_FAILURE))
        self._look_for_the_late(store)
        if self.left and store.check([_FINISHED]):
            self.finished = True
            store.set(_seen(self.place.node), "")

    def _look_for_the_late(self, store: dist.TCPStore) -> None:
        if self.late:
            store.set(_LATE, "")
        if store.check([_LATE]):
            present = [key for key in map(_alive, range(self.place.nodes)) if store.check([key])]
            words = [store.get(key).decode().split() for key in present]
            self.last_position = min((int(step), int(stage)) for *_, step, stage in words)
            self.late = True

    def _look_for_silence(self, store: dist.TCPStore) -> None:
        """The chief's part: machines that have been heard of once must keep talking."""
        now = time.monotonic()
        for node in range(1, self.place.nodes):
            if not store.check([_alive(node)]) or store.check([_left(node)]):
                continue
            value = store.get(_alive(node))
            before, since = self._heard.get(node, (b"", now))
            self._heard[node] = (value, now if value != before else since)
            if now - self._heard[node][1] > self.lost_after_s:
                host = value.decode().split()[0]
                self.outgoing = {
                    "kind": "lost",
                    "text": f"machine {node} ({host}) has been silent for {self.lost_after_s:g} s",
                }


def await_chief(place: Cluster, timeout_s: float, try_s: float = _TRY_S) -> None:
    """Waits until the chief takes connections. torch would wait as well, and give up with an error and a C++ stack.

    The name is looked up anew for every try: a machine that is replaced keeps its name, and not its address.

    Args:
        try_s: How long one try may take; an address that nobody has any more answers nothing at all.

    Raises:
        MachineLost: it took none for `timeout_s`.
    """
    until = time.monotonic() + timeout_s
    while True:
        wait_s = min(try_s, max(POLL_S, until - time.monotonic()))
        try:
            socket.create_connection((place.chief, place.port), timeout=wait_s).close()
            return
        except OSError as error:  # it is not up yet, or its name is not known yet
            if time.monotonic() >= until:
                words = f"the chief {place.chief} did not come within {timeout_s:g} s"
                raise MachineLost(f"{words} at the start (rendezvous_timeout_s): {error}") from None
        time.sleep(POLL_S)


def tell_launchers(store: dist.Store, place: Cluster) -> None:
    """Said by rank 0, which holds the store, before it ends: the others' launchers wait for it."""
    if place.nodes == 1:
        return
    store.set(_FINISHED, "")
    with contextlib.suppress(RuntimeError):  # one that has gone already
        store.wait([_seen(node) for node in range(1, place.nodes)], timedelta(seconds=_LAST_S))


def _alive(node: int) -> str:
    return f"launcher/alive/{node}"


def _left(node: int) -> str:
    return f"launcher/left/{node}"


def _seen(node: int) -> str:
    return f"launcher/seen/{node}"
