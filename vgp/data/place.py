"""What a process is at: the file and the record that a message names if it fails, and if it dies.

Run as a program, with a title and the file of `keep`, this file is the witness of a process that works alone: it waits
for the end of its stdin. It then imports nothing but the standard library, so that it starts in a few hundredths of a
second.
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


def at(file: object, record: object = "") -> None:
    """Notes what is looked at from now on; a task calls it for every file or record of a shard."""
    _set(f"{file}, record {record}" if record != "" else str(file))


def current() -> str:
    """The last place noted; "" = none."""
    return _current


def forget() -> None:
    _set("")


def keep(path: Path) -> None:
    """From now on this process notes its places in a file too, which outlives it."""
    global _kept
    path.write_bytes(bytes(_BYTES))
    with open(path, "r+b") as file:
        _kept = mmap.mmap(file.fileno(), _BYTES)


def last(path: Path) -> str:
    """What the process that kept its places in that file was at."""
    return path.read_bytes().rstrip(b"\0").decode(errors="replace") if path.exists() else ""


def _set(text: str) -> None:
    from vgp.base.text.printable import printable

    global _current
    _current = printable(text)
    if _kept is not None:
        encoded = _current.encode(errors="replace")[:_BYTES]
        _kept[:] = encoded + bytes(_BYTES - len(encoded))


@contextmanager
def witnessed(title: str, path: Path) -> Iterator[None]:
    """While the block runs, a small process reports a death of this one on stderr, with its last place.

    Args:
        title: What this process does meanwhile: "making rows".
        path: A file for its places.
    """
    keep(path)
    # In a session of its own: what ends this process's group must not end the one that tells of it.
    command = [sys.executable, "-IS", __file__, title, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        with suppress(OSError):  # the witness was ended
            process.communicate(_OVER)


def _report_death(title: str, path: str) -> None:
    if sys.stdin.buffer.read() == _OVER:
        return
    with suppress(OSError):
        where = f" ({at})" if (at := last(Path(path))) else ""
        print(
            f"error: the process died while {title}{where}. If nobody stopped it, it lacked memory (try smaller "
            "shards, or a larger machine), or a library crashed there.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    _report_death(*sys.argv[1:])
