"""Real processes are watched, stopped and ended."""

import signal
import sys
from pathlib import Path

import pytest

from vgp.protocol.launching.job import ONE_S, STOP_S

from .conftest import TEXT, Launcher, runs, script

STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""
#: Ignores a stop, and answers each SIGUSR1.
ECHOING = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("stop", flush=True))
signal.signal(signal.SIGUSR1, lambda *_: print("asked", flush=True))
print("up", flush=True)
time.sleep(600)
"""


def test_a_process_that_ends_early_ends_no_other(launcher: Launcher) -> None:
    text = """
import os, time
if os.environ["RANK"] == "0":
    os.symlink(str(os.getpid()), "first")
else:
    while not os.path.lexists("first") or os.path.exists("/proc/" + os.readlink("first")):
        time.sleep(0.02)
print("done")
"""
    code, out, _ = launcher.run(script(text), "torchrun", TRAINING_NPROC=2)
    assert (code, out) == (0, "done\n[rank 1] done\n")


def test_servers_end_with_their_chief_and_the_job_is_done(launcher: Launcher) -> None:
    text = "import os, time; '\"chief\"' in os.environ['TF_CONFIG'].partition('task')[2] or time.sleep(600)"
    code, _, err = launcher.run(script(text), "tensorflow", TRAINING_NODES=2, TRAINING_PARAMETER_SERVERS=1)
    assert (code, err) == (0, "")


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


@pytest.mark.parametrize("one_s", [600.0, 0.0])
def test_a_second_ctrl_c_kills_at_once_but_not_one_that_came_with_the_first(launcher: Launcher, one_s: float) -> None:
    launcher.text = TEXT.replace(f"ONE_S = {ONE_S}", f"ONE_S = {one_s}")
    child = launcher.start(script(ECHOING))
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    assert child.stdout.readline() == b"stop\n"
    child.send_signal(signal.SIGINT)
    if one_s:
        for _ in range(2):  # the launcher has handled SIGINT before its second answer
            child.send_signal(signal.SIGUSR1)
            assert child.stdout.readline() == b"asked\n"
    else:
        _, err = child.communicate(timeout=120)
        assert child.returncode == 143 and b"; killed because they did not stop: node 0." in err


def test_a_second_sigterm_costs_no_save_and_the_script_never_sees_it(tmp_path: Path) -> None:
    """As who takes a machine away may send: a handler that saves and then takes the default back would die of it."""
    text = """
import signal, sys, time
def save(*_):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for word in ("saving", "asked", "saved"):
        print(word, flush=True)
        word == "saved" or signal.sigwait([signal.SIGUSR1])
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("up", flush=True)
time.sleep(600)
"""
    launcher = Launcher(tmp_path, TEXT.replace(f"ONE_S = {ONE_S}", "ONE_S = 0.0"))
    child = launcher.start(script(text))
    assert child.stdout and child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGTERM)
    assert child.stdout.readline() == b"saving\n"
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        child.send_signal(number)
    assert child.stdout.readline() == b"asked\n"  # the launcher has handled all three
    child.send_signal(signal.SIGUSR1)
    out, err = child.communicate(timeout=120)
    assert (child.returncode, out) == (143, b"saved\n") and err.endswith(b"launch: stopped by SIGTERM.\n")


def test_who_ignores_a_stop_is_killed_before_vertex_does_it(tmp_path: Path) -> None:
    assert 20 <= STOP_S < 30
    launcher = Launcher(tmp_path, TEXT.replace(f"STOP_S = {STOP_S}", "STOP_S = 0.0"))
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
    code, out, _ = launcher.run(script(text))
    assert code == 5 and not runs(int(out))
