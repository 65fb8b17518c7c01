"""The command line on terminals of any kind, on none, and on one that goes away."""

import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).parents[2]
REPOSITORY = HERE.parents[1]
SMALL = HERE / "small" / "pipelines.toml"
POSIX = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def environment(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONWARNINGS": "ignore", **variables}


def small(*words: str) -> list[str]:
    return [sys.executable, "-m", "vgp", *words, "--settings", str(SMALL)]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a run prints on a dumb terminal that knows ASCII only; a step prints a mark, escapes and a broken byte."""
    ours, theirs = pty.openpty()
    command = small("run", "small", "--out", str(tmp_path_factory.mktemp("ascii")))
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment(**POSIX, TERM="dumb"))
    os.close(theirs)
    text = b""
    with suppress(OSError):  # how a terminal reports that its other end is gone
        while block := os.read(ours, 4096):
            text += block
    os.close(ours)
    assert process.wait(timeout=60) == 0, text
    return text.replace(b"\r\n", b"\n")


def test_an_ascii_terminal_gets_lines_and_marks_that_it_has(printed: bytes) -> None:
    assert b"show: succeeded after" in printed
    assert b"show   + succeeded" in printed
    assert b"shown: 'hello' {} +" in printed


def test_no_control_character_of_a_step_reaches_the_terminal_and_its_log_has_them(printed: bytes) -> None:
    assert rb"title \x1b]0;evil\x07 \x1b[2J byte \xff" in printed
    assert not set(printed) & (set(range(32)) - {10})
    folder = Path(printed.split(b" -> ")[1].split(b"\n")[0].decode())
    assert b"title \x1b]0;evil\x07 \x1b[2J byte \\xff" in (folder / "log.txt").read_bytes()


@pytest.mark.parametrize("word", ["--help", "config"])
def test_a_verb_succeeds_on_a_latin_1_terminal(word: str, tmp_path: Path) -> None:
    (tmp_path / "pipelines.toml").write_text(
        'steps.train.env.NAME = "\u00e9 \u2713 \u2026 \\u001b[2J"\n', encoding="utf-8"
    )
    command = [sys.executable, "-m", "vgp", word]
    done = subprocess.run(command, capture_output=True, env=environment(PYTHONIOENCODING="latin-1"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert word == "--help" or "\u00e9 + ~ \\x1b[2J" in done.stdout.decode("latin-1")


@pytest.mark.parametrize("closed", ["| true", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_output_is_no_failure(closed: str, tmp_path: Path) -> None:
    script = f'set -o pipefail; "$0" -m vgp config {closed}'
    done = subprocess.run(["bash", "-c", script, sys.executable], env=environment(), cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_is_a_failure(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "vgp", "config", "--json"]
        assert subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=environment()).returncode != 0


def test_a_terminal_that_hangs_up_ends_the_run_and_its_log_explains_how_to_resume(tmp_path: Path) -> None:
    """As of a lost ssh connection: SIGHUP, and nothing can be written any more."""
    process_id, terminal = pty.fork()
    if not process_id:
        os.execve(
            sys.executable,
            small("run", "small", "--out", str(tmp_path), "--set", f"mark={tmp_path / 'mark'}"),
            environment(),
        )
    deadline = time.monotonic() + 60
    while not (tmp_path / "mark").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1]) == 128 + signal.SIGHUP
    (log,) = tmp_path.glob("small-*/log.txt")
    assert (
        f"resume: vgp run small --settings {os.path.relpath(SMALL)} --resume {os.path.relpath(log.parent)}"
        in log.read_text()
    )
    commands = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    assert not [words for words in commands if str(tmp_path) in " ".join(words)]
