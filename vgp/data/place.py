"""What a process is at: the file and the record that a message names if it fails, and if it dies."""

import mmap
from pathlib import Path

from vgp.base.text.printable import printable

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
    global _current
    _current = printable(text)
    if _kept is not None:
        encoded = _current.encode(errors="replace")[:_BYTES]
        _kept[:] = encoded + bytes(_BYTES - len(encoded))
