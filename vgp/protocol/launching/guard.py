"""What kills the processes of a launcher that was killed itself."""

from __future__ import annotations

import contextlib
import os
import signal


class Guard:
    """A process that outlives its launcher: when that is killed, it kills the groups that are left.

    It is told of each group, `+PID` and `-PID`, through a pipe, whose end tells that the launcher is gone.
    """

    def __init__(self) -> None:
        reader, self.pipe = os.pipe()
        if os.fork():
            os.close(reader)
            return
        try:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            os.setsid()
            os.dup2(reader, 0)
            os.closerange(1, 1 << 16)  # whoever reads the launcher's output waits for its end
            self._watch()
        finally:
            os._exit(0)

    def _watch(self) -> None:
        words = b"".join(iter(lambda: os.read(0, 1 << 16), b"")).decode().split()
        for pid in [word[1:] for word in words if word[0] == "+" and f"-{word[1:]}" not in words]:
            with contextlib.suppress(OSError):
                os.killpg(int(pid), signal.SIGKILL)

    def tell(self, word: str) -> None:
        with contextlib.suppress(OSError):  # somebody killed it: the launcher does without
            os.write(self.pipe, f"{word}\n".encode())
