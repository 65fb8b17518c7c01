"""A launcher that is killed leaves nothing behind."""

import time
from collections.abc import Callable

from .conftest import Launcher, runs, script


def waited(condition: Callable[[], object], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not condition():
        time.sleep(0.02)
    return bool(condition())


def test_a_killed_launcher_takes_its_processes_and_theirs_with_it(launcher: Launcher) -> None:
    text = "import os, subprocess, time; print(os.getpid(), subprocess.Popen(['sleep', '600']).pid, flush=True); "
    text += "time.sleep(600)"
    child = launcher.start(script(text))
    assert child.stdout
    pids = list(map(int, child.stdout.readline().split()))
    assert all(map(runs, pids))
    child.kill()
    assert waited(lambda: not any(map(runs, pids)))
    child.communicate(timeout=120)  # no process holds its output
