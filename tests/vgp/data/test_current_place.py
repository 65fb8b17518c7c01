import signal
import subprocess
import sys
from pathlib import Path

COMMAND = """
import os, sys
from pathlib import Path
from vgp.data import current_place
from vgp.data.pool import WorkerPool

def made(number):
    current_place.record_place("photos/cat.png", number)
    if number == 3 and sys.argv[2] == "dies":
        os.kill(os.getpid(), 9)
    if number == 3 and sys.argv[2] == "fails":
        raise SystemExit("a fault of its own")

with WorkerPool(1, Path(sys.argv[1])) as pool:
    list(pool.map("making rows", made, range(5)))
"""


def run_pool(folder: Path, how: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, str(folder), how], capture_output=True, text=True, timeout=60
    )
    return ended.returncode, ended.stderr


def test_a_process_that_works_alone_and_is_killed_is_reported_with_its_file_and_record(tmp_path: Path) -> None:
    code, words = run_pool(tmp_path, "dies")
    assert code == -signal.SIGKILL
    assert "died while making rows (photos/cat.png, record 3)" in words


def test_a_process_that_fails_by_itself_alone_prints_its_error(tmp_path: Path) -> None:
    assert run_pool(tmp_path, "fails") == (1, "a fault of its own\n")
