"""What a launcher can see of a rank without its help: where it is, and its Python stack.

A rank notes where it is in memory that it shares with its launcher, and writes its stack when a signal comes, even
while a C call holds the interpreter's lock. Of a rank that is stopped the first can still be read.
"""

import faulthandler
import mmap
import os
import re
import signal
import struct
import sys
import tempfile
from pathlib import Path

#: Within a step, in their order.
STAGES = ("the start", "its batch", "the forward pass", "the backward pass", "the update", "the meeting of the ranks",
          "validation", "a checkpoint", "the end")  # fmt: skip
_POSITION = struct.Struct("qq")
_FRAME = re.compile(r'  File ".*", line \d+ in ')
#: The innermost frame of a rank that waits for another.
_WAITING = re.compile(
    r'  File ".*(/torch/distributed/.*|/vgp/train/processes/rank\.py", line \d+ in (exchange|agree|_leave)$)'
)
#: The innermost frame of a thread that has nothing to do.
_IDLE = re.compile(r"concurrent/futures/thread\.py.* in _worker$|/threading\.py.* in wait$")
#: Frames that say nothing about a hang, unless they are the innermost.
_COMMON = ("/vgp/train/processes/launcher.py", "/vgp/train/processes/rank.py", "<frozen runpy>", "/threading.py",
           "/concurrent/futures/", "/torch/nn/modules/module.py")  # fmt: skip
#: Innermost frames that are shown of each thread.
_MOST_FRAMES = 12


class Trace:
    """Made by the launcher before it forks the rank."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, _POSITION.size)
        self.file, path = tempfile.mkstemp()
        os.unlink(path)

    def mark(self, step: int, stage: str) -> None:
        _POSITION.pack_into(self.memory, 0, step, STAGES.index(stage))

    @property
    def position(self) -> tuple[int, int]:
        """Step and number of the stage; ranks compare by it."""
        step, stage = _POSITION.unpack_from(self.memory, 0)
        return step, stage

    def listen(self) -> None:
        """In the rank: from now on SIGUSR1 has it write the stacks of all its threads."""
        faulthandler.register(signal.SIGUSR1, self.file, all_threads=True)

    def threads(self) -> list[list[str]]:
        """The frames of each thread, innermost last; the main thread is the last. Empty before the signal."""
        text = os.pread(self.file, 1 << 20, 0).decode(errors="replace")
        blocks = [block.splitlines() for block in re.split(r"\n\n|(?=^Current thread)", text, flags=re.MULTILINE)]
        current = [any(line.startswith("Current thread") for line in block) for block in blocks]
        ordered = [b for _, b in sorted(zip(current, blocks, strict=True), key=lambda pair: pair[0])]
        return [frames for block in ordered if (frames := [line for line in block if _FRAME.match(line)][::-1])]

    @property
    def waits(self) -> bool:
        """Whether the main thread itself waits for another rank, in a collective or in `Rank.exchange`."""
        threads = self.threads()
        return bool(threads and _WAITING.match(threads[-1][-1]))

    def describe(self, pid: int) -> str:
        """A sentence about where the rank is, and its stacks."""
        step, stage = self.position
        head = f"It was last seen in step {step}, at {STAGES[stage]}"
        if state := _halted(pid):
            return f"{head}; its process {state}."
        threads = self.threads()
        if not threads:
            return f"{head}; it shows no Python stack."
        others = [f"another thread:\n{_shown(frames)}" for frames in threads[:-1] if not _IDLE.search(frames[-1])]
        return "\n".join([f"{head} (most recent call last):", *others, "its main thread:", _shown(threads[-1])])


def _shown(frames: list[str]) -> str:
    """The innermost frames, without those that every rank and every module has in common."""
    kept = [line for line in frames[:-1] if not any(part in line for part in _COMMON)]
    return "\n".join([*kept, frames[-1]][-_MOST_FRAMES:])


def _halted(pid: int) -> str:
    """What the kernel says of a process that cannot answer a signal; "" if it can, or where nobody says."""
    if sys.platform != "linux":
        return ""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    said = {"T": "is stopped (SIGSTOP)", "t": "is held by a debugger", "D": "waits for a disk or a driver"}
    return said.get(state, "")
