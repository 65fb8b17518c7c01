"""The forwarding of the output of all processes."""

from __future__ import annotations

import os
import select
import time

from vgp.protocol.launching.rank import NEVER, Rank
from vgp.protocol.launching.request import sentence

#: Seconds to wait for a blocked reader, or for a child that outlives its process, before its output is dropped.
GIVE_UP_S = 10.0


class Output:
    """The launcher's stdout (1) and stderr (2), with the bytes not yet written, by descriptor."""

    def __init__(self) -> None:
        self.pending, self.wrote_at = {1: bytearray(), 2: bytearray()}, time.monotonic()
        self.dropped: set[int] = set()
        self.is_at_line_start = True

    def log(self, text: str) -> None:
        self.add(2, (b"" if self.is_at_line_start else b"\n") + sentence(text))

    def add(self, number: int, data: bytes) -> None:
        if data and number not in self.dropped:
            self.pending[number] += data
            self.is_at_line_start = data.endswith(b"\n")

    def pass_on(self, ranks: list[Rank]) -> None:
        """Forwards output, reading only what can be written: a slow reader slows the processes, and nothing is lost."""
        waiting = [number for number, data in self.pending.items() if data]
        sources = {
            pipe.fileno(): (rank, number)
            for rank in ranks
            for number, pipe in rank.pipes.open.items()
            if number not in waiting
        }
        now, ready = time.monotonic(), _ready(list(sources), waiting)
        for descriptor, (rank, number) in sources.items():
            if descriptor in ready and now < rank.gone_at + GIVE_UP_S:
                self.add(number, rank.pipes.read(number))
            elif now > rank.gone_at:  # all is read; a detached child may still hold the pipe
                self.add(number, rank.pipes.close(number))
        for number in waiting:
            if number in ready:
                self._write(number)
            elif now > self.wrote_at + GIVE_UP_S and all(rank.gone_at < NEVER for rank in ranks):
                self._give_up(number)

    def _write(self, number: int) -> None:
        """Writes up to 4096 bytes, which a writable pipe accepts at once."""
        try:
            written = os.write(number, self.pending[number][:4096])
            del self.pending[number][:written]  # unlike a slice, does not copy the rest
            self.wrote_at = time.monotonic()
        except BlockingIOError:
            pass
        except OSError:  # the reader is gone: the command continues
            self._give_up(number)

    def _give_up(self, number: int) -> None:
        self.dropped.add(number)
        self.pending[number].clear()


def _ready(sources: list[int], targets: list[int]) -> set[int]:
    """Returns the descriptors that become readable or writable within 0.1 s."""
    poller = select.poll()
    for descriptor in sources:
        poller.register(descriptor, select.POLLIN)
    for descriptor in targets:
        poller.register(descriptor, select.POLLOUT)
    return {descriptor for descriptor, _ in poller.poll(100)}
