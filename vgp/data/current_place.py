"""The file and record that a process works on, for messages about its failure or death.

Run as a program, this file is the witness of a process: it waits for the end of its stdin and reports the death of the
process. It imports only the standard library, so it starts in a few hundredths of a second.
"""

import mmap
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OVER = b"over"
_BYTES = 1 << 10
_current = ""
_kept: mmap.mmap | None = None


def record_place(file: object, record: object = "") -> None:
    """Records the current file and record; a task calls it for every file or record of a shard."""
    _set(f"{file}, record {record}" if record != "" else str(file))


def current_place() -> str:
    """Returns the last recorded place; "" = none."""
    return _current


def forget_place() -> None:
    _set("")


def keep_places(path: Path) -> None:
    """Makes this process also record its places in a file, which outlives the process."""
    global _kept
    path.write_bytes(bytes(_BYTES))
    with open(path, "r+b") as file:
        _kept = mmap.mmap(file.fileno(), _BYTES)


def read_last_place(path: Path) -> str:
    """Reads the last place of the process that called `keep_places` with this path; "" if it recorded none."""
    return path.read_bytes().rstrip(b"\0").decode(errors="replace") if path.exists() else ""


def _set(text: str) -> None:
    from vgp.base.text.printable import printable

    global _current
    _current = printable(text)
    if _kept is not None:
        encoded = _current.encode(errors="replace")[:_BYTES]
        _kept[:] = encoded + bytes(_BYTES - len(encoded))


@contextmanager
def watch_for_death(title: str, path: Path) -> Iterator[None]:
    """Starts a small process that reports a death of this process during the block on stderr, with its last place.

    Args:
        title: The work of this process, such as "making rows".
        path: A file for its places.
    """
    keep_places(path)
    # In a session of its own, because a signal to this process's group must not end the witness.
    command = [sys.executable, "-IS", __file__, title, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        with suppress(OSError):  # the witness has died
            process.communicate(_OVER)


def _report_death(title: str, path: str) -> None:
    if sys.stdin.buffer.read() == _OVER:
        return
    with suppress(OSError):
        where = f" ({at})" if (at := read_last_place(Path(path))) else ""
        print(
            f"error: the process died while {title}{where}. If you did not stop it, it ran out of memory (try smaller "
            "shards, or a larger machine), or a library crashed.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    _report_death(*sys.argv[1:])
