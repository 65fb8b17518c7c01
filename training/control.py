"""How the launchers of several machines tell each other that a rank failed or a machine is gone.

They share the key-value store that rank 0 holds on the chief, and write to it every half second. A machine that has
not been heard of for `lost_after_s` counts as lost, on both sides of the cut: the chief looks at everyone's last word,
the others at the chief's answers. A thread, since a dead network blocks its caller.
"""

import json
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from training.cluster import Cluster

POLL_S = 0.5
_FAILURE = "launcher/failure"


class Control(threading.Thread):
    """This machine's line to the others, for `training.watch`."""

    def __init__(self, place: Cluster, timeout_s: float, lost_after_s: float):
        super().__init__(name="control", daemon=True)
        self.place, self.timeout_s, self.lost_after_s = place, timeout_s, lost_after_s
        #: The first failure that any machine published: `kind` as in a report, and `text`.
        self.failure: dict[str, Any] | None = None
        self.last_heard = float("inf")
        #: Whether the chief's store has ended, and was not merely silent.
        self.gone = False
        self.outgoing: dict[str, Any] | None = None
        self.published = threading.Event()
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
        """On the chief: hosts that have missed several of their last words."""
        now = time.monotonic()
        late = [value for value, since in self._heard.values() if now - since > 4 * POLL_S]
        return [value.decode().split()[0] for value in late]

    def publish(self, failure: Mapping[str, Any] | None) -> None:
        """Tells the other machines of our failure, if it is ours; waits until they can have read whichever it is."""
        if failure and self.failure is None and self.is_alive():
            self.outgoing = dict(failure)
            self.published.wait(10)
        if self.place.node == 0 and self.is_alive():
            time.sleep(3 * POLL_S)  # the store goes when our ranks go

    def run(self) -> None:
        try:
            store = dist.TCPStore(self.place.chief, self.place.port, is_master=False, wait_for_workers=False,
                                  timeout=timedelta(seconds=self.timeout_s))  # fmt: skip
            while True:
                self._exchange(store)
                self.last_heard = time.monotonic()
                time.sleep(POLL_S)
        except (RuntimeError, ValueError):  # torch's DistNetworkError and DistStoreError are RuntimeErrors
            if self.last_heard < float("inf"):
                self.gone, self.last_heard = True, -float("inf")  # the chief is gone, or has finished

    def _exchange(self, store: dist.TCPStore) -> None:
        store.set(f"launcher/alive/{self.place.node}", f"{self.place.host} {time.monotonic()}")
        if self.place.node == 0 and self.outgoing is None:
            self._look_for_silence(store)
        if self.outgoing is not None:
            store.compare_set(_FAILURE, "", json.dumps(self.outgoing))
            self.published.set()
        if store.check([_FAILURE]):
            self.failure = json.loads(store.get(_FAILURE))

    def _look_for_silence(self, store: dist.TCPStore) -> None:
        """The chief's part: machines that have been heard of once must keep talking."""
        now = time.monotonic()
        for node in range(1, self.place.nodes):
            if not store.check([f"launcher/alive/{node}"]):
                continue
            value = store.get(f"launcher/alive/{node}")
            before, since = self._heard.get(node, (b"", now))
            self._heard[node] = (value, now if value != before else since)
            if now - self._heard[node][1] > self.lost_after_s:
                host = value.decode().split()[0]
                self.outgoing = {
                    "kind": "failed",
                    "text": f"machine {node} ({host}) has been silent for {self.lost_after_s:g} s",
                }
