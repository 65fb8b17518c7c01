"""`kill -9` of a piece of work after a request: a process that imports once and forks for each call, and who kills it.

A call is a line of JSON: the variables of the loopback cloud, and what the work is given. The fork's process id is
printed, and at its end the code with which it ended.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.emulator.cloud import Cloud

TESTS = Path(__file__).parent


def serve(work: Callable[..., None]) -> None:
    """Forks for every call on standard input."""
    for line in sys.stdin:
        call = json.loads(line)
        process = os.fork()
        if not process:
            code = 1
            try:
                os.environ.update(call["environment"])
                work(**call["values"])
                code = 0
            finally:
                os._exit(code)
        print(process, flush=True)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


@contextmanager
def forks(script: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A script that serves, in a folder."""
    path = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"}
    with subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=path, cwd=folder
    ) as process:
        yield process


def ask(process: subprocess.Popen[str], environment: Mapping[str, str], **values: Any) -> int:
    """Calls; returns the fork's process id."""
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps({"environment": dict(environment), "values": values}) + "\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def ended(process: subprocess.Popen[str]) -> int:
    """Waits for the end of what was called, and returns its code."""
    assert process.stdout
    return int(process.stdout.readline())


class Victim:
    """Works in a fork, which dies after its n-th request was handled."""

    def __init__(self, cloud: "Cloud", process: subprocess.Popen[str]) -> None:
        self.cloud, self.process = cloud, process
        self.left = 0
        self.known = threading.Event()
        cloud.on("aiplatform.*", self.strike)

    def work(self, *, requests: int, **values: Any) -> bool:
        """Whether it lived to its end."""
        self.left = requests
        self.known.clear()
        self.id = ask(self.process, self.cloud.environment, **values)
        self.known.set()
        code = ended(self.process)
        self.left = 0
        assert code in (0, -signal.SIGKILL)
        return code == 0

    def strike(self, _: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.known.wait()
            os.kill(self.id, signal.SIGKILL)
