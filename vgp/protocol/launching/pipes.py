"""What one process writes to its stdout (1) and stderr (2)."""

from __future__ import annotations

import os
import time
from collections import deque
from subprocess import Popen
from typing import Any

#: Bytes that are read at once, and up to which a line stays whole.
CHUNK = 1 << 16


class Pipes:
    """The pipes of one process: its bytes as they come, or whole lines behind a prefix where others write too."""

    def __init__(self, child: Popen[bytes], prefix: bytes | None):
        self.open: dict[int, Any] = {1: child.stdout, 2: child.stderr}
        self.prefix, self.partial = prefix, {1: b"", 2: b""}
        self.last: deque[str] = deque(maxlen=20)
        self.wrote_at = self.raised_at = 0.0
        for pipe in self.open.values():
            os.set_blocking(pipe.fileno(), False)

    def read(self, number: int) -> bytes:
        """What of it may be passed on."""
        try:
            data = os.read(self.open[number].fileno(), CHUNK)
        except BlockingIOError:
            return b""
        if not data:
            return self.close(number)
        self.wrote_at = time.monotonic()
        lines = (self.partial[number] + data).splitlines(True)
        is_whole = lines[-1].endswith(b"\n") or len(lines[-1]) >= CHUNK  # a \r may be followed by its \n
        self.partial[number] = b"" if is_whole else lines.pop()
        self._remember(lines)
        return data if self.prefix is None else b"".join(self.prefix + line for line in lines)

    def close(self, number: int) -> bytes:
        """The line that it did not finish."""
        self.open.pop(number).close()
        line, self.partial[number] = self.partial[number], b""
        self._remember([line] if line else [])
        return self.prefix + line + b"\n" if line and self.prefix is not None else b""

    def _remember(self, lines: list[bytes]) -> None:
        for line in lines:
            if b"Traceback (most recent call last)" in line[:60]:  # torch writes [rank1]: before it
                self.raised_at = time.monotonic()
            self.last.append(line[-2000:].rstrip().decode("utf-8", "replace"))
