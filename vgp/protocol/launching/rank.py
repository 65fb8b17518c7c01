"""One process of the command: its output, its start and its end."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from subprocess import Popen
from typing import Any

from vgp.protocol.launching.folders import Folders
from vgp.protocol.launching.machines import Node
from vgp.protocol.launching.request import Mistake, fill

# ---- the output of one process on stdout (1) and stderr (2)

#: Bytes of one read, and maximum length of a line that stays whole.
CHUNK = 1 << 16


class Pipes:
    """The pipes of one process: raw bytes, or whole lines with a prefix if other processes write too."""

    def __init__(self, child: Popen[bytes], prefix: bytes | None):
        self.open: dict[int, Any] = {1: child.stdout, 2: child.stderr}
        self.prefix, self.partial = prefix, {1: b"", 2: b""}
        self.last: deque[str] = deque(maxlen=20)
        self.wrote_at = self.raised_at = 0.0
        for pipe in self.open.values():
            os.set_blocking(pipe.fileno(), False)

    def read(self, number: int) -> bytes:
        """Reads a pipe; returns the bytes to forward."""
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
        """Closes a pipe; returns its unfinished line."""
        self.open.pop(number).close()
        line, self.partial[number] = self.partial[number], b""
        self._remember([line] if line else [])
        return self.prefix + line + b"\n" if line and self.prefix is not None else b""

    def _remember(self, lines: list[bytes]) -> None:
        for line in lines:
            if b"Traceback (most recent call last)" in line[:60]:  # torch writes [rank1]: before it
                self.raised_at = time.monotonic()
            self.last.append(line[-2000:].rstrip().decode("utf-8", "replace"))


NEVER = float("inf")


class Rank:
    """One process of the command."""

    pipes: Pipes

    def __init__(self, node: Node, name: str, variables: Mapping[str, str], processes: int, has_others: bool):
        self.node, self.name, self.variables, self.processes = node, name, variables, processes
        is_first = node.number == 0 and variables.get("LOCAL_RANK", "0") == "0"
        self.prefix = None if not has_others else b"" if is_first else f"[{name}] ".encode()
        self.pid = 0
        #: Exit status as in `subprocess`: None = running, negative = killed by that signal.
        self.status: int | None = None
        #: When the process ended, and when its process group did.
        self.ended_at = self.gone_at = NEVER
        self.signalled = False

    def prepare(self, command: list[str], folders: Folders, parameters: Mapping[str, str]) -> None:
        """Sets its command and variables; finds the program before anything starts."""
        node = self.node
        number = node.nodes + node.index if node.number is None else node.number
        words: dict[str, object] = {"nodes": node.nodes, "node": number, "processes": self.processes}
        words.update(folders.paths, chief=node.chief, port=node.port)
        words.update(parameters)
        self.command = fill(command, words)
        self.environment = {"PYTHONUNBUFFERED": "1", **os.environ, **self.variables, **folders.variables}
        if node.nodes > 1 or node.has_servers:
            self.environment["CLUSTER_SPEC"] = node.text
        self.command[0] = program(self.command[0])

    def start(self) -> None:
        try:
            self.child = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self.environment, start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            hint = ': it has no first line "#!..."; write ["sh", ...]' if error.errno == errno.ENOEXEC else ""
            raise Mistake(f"{self.command[0]} cannot be started ({error.strerror}){hint}.") from None
        self.pid, self.pipes = self.child.pid, Pipes(self.child, self.prefix)

    def signal(self, number: int, group: bool = False) -> bool:
        """Sends a signal; returns whether the process or group exists."""
        try:
            (os.killpg if group else os.kill)(self.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS raises PermissionError for an ended process
            return False
        return True

    def end(self, status: int, now: float) -> None:
        """Records its end; `status` comes from os.waitpid."""
        self.status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        self.child.returncode, self.ended_at = self.status, now


def program(name: str) -> str:
    """Returns the path of a program; python and python3 fall back to this interpreter."""
    file = shutil.which(name) or (sys.executable if name in ("python", "python3") else "")
    if not file:
        raise Mistake(f"the command {name!r} does not exist or is not executable.")
    return file
