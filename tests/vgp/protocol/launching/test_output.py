"""Output passes whole to every reader."""

import array
import fcntl
import termios
import time

from .conftest import Launcher, script


def test_output_is_whole_whatever_it_is(launcher: Launcher) -> None:
    text = """
import os
if os.environ["RANK"] == "0":
    os.write(1, b"x" * 300_000)
    os.write(2, bytes(range(256)) * 40)
else:
    for number in range(3000):
        print("line", number)
    print("unfinished", end="")
"""
    code, out, err = launcher.run(script(text), "torchrun", TRAINING_NPROC=2)
    assert code == 0 and out.count("x") == 300_000
    assert [line for line in out.replace("x", "").splitlines() if line] == [
        *(f"[rank 1] line {number}" for number in range(3000)), "[rank 1] unfinished",
    ]  # fmt: skip
    assert "ABC" in err


def test_the_last_bytes_of_one_process_pass_as_they_are(launcher: Launcher) -> None:
    child = launcher.start(script("import os; os.write(1, bytes(range(256)) * 4000 + b'end')"))
    out, _ = child.communicate(timeout=120)
    assert out == bytes(range(256)) * 4000 + b"end"


def test_a_reader_that_goes_away_stops_nothing(launcher: Launcher) -> None:
    text = "import time\nfor _ in range(20): print('x' * 9999, flush=True); time.sleep(0.01)\nopen('done', 'w')"
    child = launcher.start(script(text))
    assert child.stdout
    child.stdout.close()
    child.stdout = None
    assert child.wait(timeout=120) == 0 and (launcher.folder / "done").exists()


def test_a_reader_that_reads_slowly_loses_nothing(launcher: Launcher) -> None:
    child = launcher.start(script("import os\nfor _ in range(40): os.write(1, b'x' * 9999 + b'\\n')"))
    assert child.stdout
    unread = array.array("i", [0])
    while unread[0] < 48 << 10:  # of the 64 KiB that a pipe holds
        assert child.poll() is None
        fcntl.ioctl(child.stdout, termios.FIONREAD, unread)
        time.sleep(0.01)
    assert child.stdout.read() == (b"x" * 9999 + b"\n") * 40 and child.wait(timeout=120) == 0
