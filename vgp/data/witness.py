"""A small process that says what this one was at if it is killed: where one process works alone, nobody else can tell.

Run as a program, with a title and the file of `place.keep`, it waits for the end of its stdin. It imports nothing but
the standard library, so that it starts in a few hundredths of a second.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OVER = b"over"


@contextmanager
def witnessed(title: str, path: Path) -> Iterator[None]:
    """While the block runs, a death of this process is told on stderr, with its last place (`place.py`).

    Args:
        title: What it does meanwhile: "making rows".
        path: A file for its places.
    """
    from vgp.data import place

    place.keep(path)
    # In a session of its own: what ends this process's group must not end the one that tells of it.
    command = [sys.executable, "-IS", __file__, title, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        with suppress(OSError):  # somebody ended it
            process.communicate(_OVER)


def _tell(title: str, path: str) -> None:
    if sys.stdin.buffer.read() == _OVER:
        return
    with suppress(OSError):
        last = Path(path).read_bytes().rstrip(b"\0").decode(errors="replace")
        where = f" ({last})" if last else ""
        print(
            f"error: the process died while {title}{where}. If nobody stopped it, it lacked memory (try smaller "
            "shards, or a larger machine), or a library crashed there.",
            file=sys.stderr,
        )


if __name__ == "__main__":
    _tell(*sys.argv[1:])
