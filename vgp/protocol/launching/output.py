"""The output of all processes, passed on."""

from __future__ import annotations

import os
import select
import time

from vgp.protocol.launching.rank import NEVER, Rank
from vgp.protocol.launching.request import sentence

#: Seconds for a reader who reads no more, and for who still writes when its process has ended.
DEAF_S = 10.0


class Output:
    """This launcher's own stdout (1) and stderr (2): what is read and not yet written, by descriptor."""

    def __init__(self) -> None:
        self.pending, self.wrote_at = {1: b"", 2: b""}, time.monotonic()
        self.deaf: set[int] = set()
        self.is_at_line_start = True

    def say(self, text: str) -> None:
        self.add(2, (b"" if self.is_at_line_start else b"\n") + sentence(text))

    def add(self, number: int, data: bytes) -> None:
        if data and number not in self.deaf:
            self.pending[number] += data
            self.is_at_line_start = data.endswith(b"\n")

    def pass_on(self, ranks: list[Rank]) -> None:
        """Reads only what can be written on: who reads us slowly slows the processes, and nothing is lost."""
        waiting = [number for number, data in self.pending.items() if data]
        sources = {
            pipe.fileno(): (rank, number)
            for rank in ranks
            for number, pipe in rank.pipes.open.items()
            if number not in waiting
        }
        now, ready = time.monotonic(), _ready(list(sources), waiting)
        for descriptor, (rank, number) in sources.items():
            if descriptor in ready and now < rank.gone_at + DEAF_S:
                self.add(number, rank.pipes.read(number))
            elif now > rank.gone_at:  # all is read; somebody who left the group may still hold the pipe
                self.add(number, rank.pipes.close(number))
        for number in waiting:
            if number in ready:
                self._write(number)
            elif now > self.wrote_at + DEAF_S and all(rank.gone_at < NEVER for rank in ranks):
                self._give_up(number)

    def _write(self, number: int) -> None:
        """A pipe that can be written to takes 4096 bytes at once."""
        try:
            written = os.write(number, self.pending[number][:4096])
            self.pending[number], self.wrote_at = self.pending[number][written:], time.monotonic()
        except BlockingIOError:
            pass
        except OSError:  # nobody reads any more: the command goes on
            self._give_up(number)

    def _give_up(self, number: int) -> None:
        self.deaf.add(number)
        self.pending[number] = b""


def _ready(sources: list[int], targets: list[int]) -> set[int]:
    """The descriptors that may be read or written within a tenth of a second."""
    poller = select.poll()
    for descriptor in sources:
        poller.register(descriptor, select.POLLIN)
    for descriptor in targets:
        poller.register(descriptor, select.POLLOUT)
    return {descriptor for descriptor, _ in poller.poll(100)}
