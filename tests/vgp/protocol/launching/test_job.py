"""Real processes are watched, stopped and ended."""

import signal
import sys
import time
from pathlib import Path

from vgp.protocol.launching.job import STOP_S

from .conftest import TEXT, Launcher, runs, script

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""


def test_a_process_that_ends_early_ends_no_other(launcher: Launcher) -> None:
    text = "import os, time; time.sleep(0.6 * (os.environ['RANK'] == '1')); print('done')"
    code, out, _ = launcher.run(script(text), "torchrun", TRAINING_NPROC=2)
    assert (code, out) == (0, "done\n[rank 1] done\n")


def test_servers_end_with_their_chief_and_the_job_is_done(launcher: Launcher) -> None:
    text = "import os, time; time.sleep(0.3 if '\"chief\"' in os.environ['TF_CONFIG'].partition('task')[2] else 600)"
    begin = time.monotonic()
    code, _, err = launcher.run(script(text), "tensorflow", TRAINING_NODES=2, TRAINING_PARAMETER_SERVERS=1)
    assert (code, err) == (0, "") and time.monotonic() - begin < 60


def test_a_server_that_fails_fails_the_job(launcher: Launcher) -> None:
    text = "import os, time, sys; sys.exit(4) if '\"ps\", \"index\"' in os.environ['TF_CONFIG'] else time.sleep(600)"
    code, _, err = launcher.run(script(text), "tensorflow", TRAINING_PARAMETER_SERVERS=1)
    assert code == 4 and "ps 0 failed with exit code 4" in err


def test_a_stop_is_passed_on_and_is_no_success(launcher: Launcher) -> None:
    text = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("saved"), sys.exit(0)))
print("up", flush=True)
time.sleep(600)
"""
    child = launcher.start(script(text))
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, out) == (143, b"saved\n") and b"stopped by SIGTERM." in err


def test_a_second_ctrl_c_kills_at_once_but_not_one_that_came_with_the_first(launcher: Launcher) -> None:
    child = launcher.start(script(STUBBORN))
    assert child.stdout and child.stdout.readline() == b"up\n"
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT):
        child.send_signal(number)
    time.sleep(0.5)
    assert child.poll() is None
    until = time.monotonic() + 120
    while child.poll() is None and time.monotonic() < until:  # one that comes too early is of the same stop
        child.send_signal(signal.SIGINT)
        time.sleep(0.5)
    _, err = child.communicate(timeout=120)
    assert child.returncode in (130, 143) and b"; killed because they did not stop: node 0." in err


def test_a_second_sigterm_costs_no_save_and_the_script_never_sees_it(launcher: Launcher) -> None:
    """As who takes a machine away may send: a handler that saves and then takes the default back would die of it."""
    text = """
import signal, sys, time
def save(*_):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print("saving", flush=True)
    time.sleep(1)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(600)
"""
    child = launcher.start(script(text))
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    assert child.stdout.readline() == b"saving\n"
    time.sleep(0.4)  # no longer of the same stop
    for number in (signal.SIGTERM, signal.SIGHUP):
        child.send_signal(number)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, out) == (143, b"saved\n") and err.endswith(b"launch: stopped by SIGTERM.\n")


def test_who_ignores_a_stop_is_killed_before_vertex_does_it(tmp_path: Path) -> None:
    assert 20 <= STOP_S < 30
    launcher = Launcher(tmp_path, TEXT.replace(f"STOP_S = {STOP_S}", "STOP_S = 0.5"))
    child = launcher.start(script(STUBBORN))
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=120)
    assert child.returncode == 143


def test_a_program_that_a_shell_waits_for_is_stopped_too(launcher: Launcher) -> None:
    text = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: (print('saved'), sys.exit(0))); "
    text += "print('up', flush=True); time.sleep(600)"
    child = launcher.start(["sh", "-c", f'{sys.executable} -S -c "{text}"; echo after'])
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=120)
    assert child.returncode == 143 and b"saved\n" in out


def test_children_of_a_process_end_with_it_and_do_not_hold_the_job(launcher: Launcher) -> None:
    text = "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid); sys.exit(5)"
    begin = time.monotonic()
    code, out, _ = launcher.run(script(text))
    assert code == 5 and time.monotonic() - begin < 60 and not runs(int(out))
