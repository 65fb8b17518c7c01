"""Who failed, and the exit code."""

from .conftest import Launcher, script


def test_the_first_to_fail_is_named_ends_the_others_and_gives_the_exit_code(launcher: Launcher) -> None:
    text = """
import os, sys, time
rank = int(os.environ["RANK"])
if rank == 1:
    print("before")
    sys.stderr.write("[rank1]: Traceback (most recent call last)\\n  ...\\nValueError: bad row 17\\n")
    sys.stderr.flush()
    open("raised", "w")
    while not os.path.lexists("noticed"):  # torch closes its sockets before the process has ended
        time.sleep(0.02)
    while os.path.exists("/proc/" + os.readlink("noticed")):  # the launcher has seen the end of rank 0
        time.sleep(0.02)
    sys.exit(7)
while rank == 2 or not os.path.exists("passed"):
    time.sleep(0.02)
os.symlink(str(os.getpid()), "noticed")
sys.stderr.write("Traceback (most recent call last)\\nConnectionError: peer\\n")
sys.exit(3)
"""
    child = launcher.start(script(text), "torchrun", TRAINING_NPROC=3)
    assert child.stderr
    begin = b"".join(iter(child.stderr.readline, b"[rank 1] ValueError: bad row 17\n"))
    (launcher.folder / "passed").touch()
    out, err = (part.decode() for part in child.communicate(timeout=300))
    code, err = child.returncode, f"{begin.decode()}[rank 1] ValueError: bad row 17\n{err}"
    assert code == 7
    assert out == "[rank 1] before\n" and "[rank 1] ValueError: bad row 17\n" in err
    assert "launch: rank 1 failed with exit code 7; its last lines:\n    before\n" in err
    assert err.count("    ValueError: bad row 17") == 1
    assert launcher.left()["exit_code"] == 7


def test_a_killed_process_is_named_and_gives_128_and_its_signal(launcher: Launcher) -> None:
    text = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    code, _, err = launcher.run(script(text))
    assert code == 137 and "node 0 was killed by SIGKILL (often: out of memory)." in err
