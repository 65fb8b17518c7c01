import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

COMMAND = """
import sys
from vgp.workflow.local import process
saves = "trap '' TERM; echo saves; sleep 300; sleep 300"
try:
    with process.start_group(["sh", "-c", saves], {}) as child:
        print(child.stdout.readline(), end="", flush=True)
        child.wait()
except process.Interrupted as stop:
    raise SystemExit(128 + stop.signal_number)
"""


@pytest.fixture
def command() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", COMMAND], stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout and process.stdout.readline() == "saves\n"
        yield process
        process.send_signal(signal.SIGINT)


def test_a_second_ctrl_c_ends_what_still_saves_at_once(command: subprocess.Popen[str]) -> None:
    command.send_signal(signal.SIGINT)
    assert command.stderr
    assert command.stderr.readline().startswith("stopping: steps have 30 s to save their work; press Ctrl-C again")
    began = time.monotonic()
    command.send_signal(signal.SIGINT)
    assert command.wait(timeout=120) == 128 + signal.SIGINT
    assert time.monotonic() - began < 25


def test_a_stop_that_a_terminal_and_a_wrapper_both_send_is_one(command: subprocess.Popen[str]) -> None:
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        command.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        command.wait(timeout=1.5)
