"""Finds the position, the Python stacks and the last collectives of a rank that hangs, without its cooperation.

A rank keeps its step and stage in memory shared with its launcher, which can be read even if the rank is stopped. It
writes its stacks on a signal, even while a C call holds the interpreter's lock.

The last collectives come from the flight recorder of PyTorch's process groups. A rank that times out leaves a dump of
it: NCCL's watchdog writes the dump, and over gloo `dump_flight` does.
"""

import faulthandler
import io
import mmap
import os
import pickle
import re
import secrets
import signal
import stat
import struct
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from vgp.base.documents.json_text import JsonObject

#: The stages of a step, in order.
STAGES = ("the start", "its batch", "the forward pass", "the backward pass", "the update", "the meeting of the ranks",
          "validation", "a checkpoint", "the end")  # fmt: skip
_POSITION = struct.Struct("qq")
_FRAME = re.compile(r'  File ".*", line \d+ in ')
#: Matches the innermost frame of a rank that waits for another.
_WAITING = re.compile(
    r'  File ".*(/torch/distributed/.*|/vgp/train/processes/rank\.py", line \d+ in (exchange|agree|_leave)$)'
)
#: Matches the innermost frame of an idle thread.
_IDLE = re.compile(r"concurrent/futures/thread\.py.* in _worker$|/threading\.py.* in wait$")
#: Frames to leave out unless they are the innermost, because every rank or module has them.
_COMMON = ("/vgp/train/processes/launcher.py", "/vgp/train/processes/rank.py", "<frozen runpy>", "/threading.py",
           "/concurrent/futures/", "/torch/nn/modules/module.py")  # fmt: skip
#: Innermost frames to show of each thread.
_MOST_FRAMES = 12


class Trace:
    """The position and stacks of a rank; the launcher creates it before it forks the rank."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, _POSITION.size)
        self.file, path = tempfile.mkstemp()
        os.unlink(path)

    def mark(self, step: int, stage: str) -> None:
        _POSITION.pack_into(self.memory, 0, step, STAGES.index(stage))

    @property
    def position(self) -> tuple[int, int]:
        """The step and the index of the stage; smaller for a rank that lags behind."""
        step, stage = _POSITION.unpack_from(self.memory, 0)
        return step, stage

    def listen(self) -> None:
        """Makes SIGUSR1 write the stacks of all threads; called in the rank."""
        faulthandler.register(signal.SIGUSR1, self.file, all_threads=True)

    def threads(self) -> list[list[str]]:
        """Returns the frames of each thread, innermost last, with the main thread last. Empty before the signal."""
        text = os.pread(self.file, 1 << 20, 0).decode(errors="replace")
        blocks = [block.splitlines() for block in re.split(r"\n\n|(?=^Current thread)", text, flags=re.MULTILINE)]
        current = [any(line.startswith("Current thread") for line in block) for block in blocks]
        ordered = [block for _, block in sorted(zip(current, blocks, strict=True), key=lambda pair: pair[0])]
        return [frames for block in ordered if (frames := [line for line in block if _FRAME.match(line)][::-1])]

    @property
    def waits(self) -> bool:
        """Whether the main thread waits for another rank, in a collective or in `Rank.exchange`."""
        threads = self.threads()
        return bool(threads and _WAITING.match(threads[-1][-1]))

    def describe(self, pid: int) -> str:
        """Returns a sentence about the rank's position, and its stacks."""
        step, stage = self.position
        head = f"It was last seen in step {step}, at {STAGES[stage]}"
        if state := _halted(pid):
            return f"{head}; its process {state}."
        threads = self.threads()
        if not threads:
            return f"{head}; it shows no Python stack."
        others = [f"another thread:\n{_format(frames)}" for frames in threads[:-1] if not _IDLE.search(frames[-1])]
        return "\n".join([f"{head} (most recent call last):", *others, "its main thread:", _format(threads[-1])])


def _format(frames: list[str]) -> str:
    """Returns the innermost frames without the common ones."""
    kept = [line for line in frames[:-1] if not any(part in line for part in _COMMON)]
    return "\n".join([*kept, frames[-1]][-_MOST_FRAMES:])


def _halted(pid: int) -> str:
    """Returns why the kernel cannot deliver a signal to a process; "" if it can, or if that is unknown."""
    if sys.platform != "linux":
        return ""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
    reasons = {"T": "is stopped (SIGSTOP)", "t": "is held by a debugger", "D": "waits for a disk or a driver"}
    return reasons.get(state, "")


#: PyTorch 2.13 reads both: the first is the new name of the second.
_FILE_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_LARGEST_BYTES = 64 << 20
#: Collectives in which all ranks must send tensors of one size.
_SAME_SIZES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")

Entry = JsonObject


class Recorder:
    """The flight recorder dumps of this machine's ranks."""

    def __init__(self) -> None:
        self.prefix = f"{tempfile.gettempdir()}/flight-{secrets.token_hex(8)}-"

    def switch_on(self) -> None:
        """Turns the recorder on in the environment, for processes forked from now on."""
        for name in _FILE_VARIABLES:
            os.environ[name] = self.prefix
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
        os.environ.setdefault("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000")
        os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")

    def take(self, ranks: Iterable[int]) -> dict[int, list[Entry]]:
        """Returns the collectives of each rank with a dump, and deletes the dumps."""
        dumps = {rank: _take(Path(f"{self.prefix}{rank}")) for rank in ranks}
        return {rank: entries for rank, entries in dumps.items() if entries}


def dump_flight(rank: int) -> None:
    """Writes this process's dump, unless NCCL's watchdog has written it."""
    from torch._C import _distributed_c10d

    path = os.environ.get(_FILE_VARIABLES[0], "") + str(rank)
    if os.path.isabs(path) and not os.path.exists(path):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(_distributed_c10d._dump_fr_trace())  # type: ignore[attr-defined]


class _PlainUnpickler(pickle.Unpickler):
    """An unpickler of numbers, texts, lists and dictionaries, as the recorder writes them; it calls no code."""

    def find_class(self, module: str, name: str) -> object:
        raise pickle.UnpicklingError(f"a record must not hold {module}.{name}")


def parse_flight(data: bytes) -> list[Entry]:
    """Returns the collectives of a dump in order; an empty list if the data is not a dump."""
    try:
        record = _PlainUnpickler(io.BytesIO(data)).load()
        entries = [entry for entry in record["entries"] if not entry["is_p2p"]]
        return sorted(entries, key=lambda entry: (_group(entry), int(entry["collective_seq_id"])))
    except Exception:  # a truncated dump breaks in many ways, and only the explanation is lost
        return []


def explain_flight(dumps: Mapping[int, list[Entry]]) -> str:
    """Returns a sentence about the first collective that differs between ranks, else about their last; "" if none."""
    groups = sorted({_group(entry) for entries in dumps.values() for entry in entries})
    for group in groups:
        calls = {r: {int(e["collective_seq_id"]): e for e in es if _group(e) == group} for r, es in dumps.items()}
        calls = {rank: numbered for rank, numbered in calls.items() if numbered}
        if text := len(calls) > 1 and _describe_difference(calls):
            return text
    waiting = [f"rank {rank} in {_format_entry(entries[-1])}" for rank, entries in sorted(dumps.items())]
    return f"Last collective: {'; '.join(waiting)}." if waiting else ""


def _describe_difference(calls: Mapping[int, Mapping[int, Entry]]) -> str:
    last = {rank: max(numbered) for rank, numbered in calls.items()}
    for number in range(max(map(min, calls.values())), min(last.values()) + 1):
        present = {rank: numbered[number] for rank, numbered in calls.items() if number in numbered}
        if len({_find_signature(entry) for entry in present.values()}) > 1:
            shown = "; ".join(f"rank {rank} called {_format_entry(entry)}" for rank, entry in sorted(present.items()))
            return (
                f"The ranks called different collectives as number {number}: {shown}. Look for a branch that "
                "differs from rank to rank, or for tensors of different shapes."
            )
    number = min(last.values()) + 1
    waiting = {rank: numbered[number] for rank, numbered in calls.items() if number in numbered}
    if not waiting:
        return ""
    absent = ", ".join(str(rank) for rank in sorted(calls) if rank not in waiting)
    rank, entry = min(waiting.items())
    return (
        f"Rank {', '.join(map(str, sorted(waiting)))} waited in collective number {number}, {_format_entry(entry)}; "
        f"rank {absent} has not called it."
    )


def _group(entry: Entry) -> str:
    return str(entry["process_group"][0])


def _find_signature(entry: Entry) -> tuple[str, str]:
    name = str(entry["profiling_name"])
    sized = any(kind in name for kind in _SAME_SIZES)
    return name, f"{entry['input_sizes']} {entry['input_dtypes']}" if sized else ""


def _format_entry(entry: Entry) -> str:
    """Formats a collective, for example `gloo:all_reduce of Float [1024] (train.py:17, loss)`."""
    tensors = ", ".join(f"{t} {list(s)}" for t, s in zip(entry["input_dtypes"], entry["input_sizes"], strict=False))
    frames = [f for f in entry.get("frames", ()) if "/torch/" not in f["filename"] and ".py" in f["filename"]]
    where = f" ({Path(frames[0]['filename']).name}:{frames[0]['line']}, {frames[0]['name']})" if frames else ""
    return f"{entry['profiling_name']} of {tensors or 'nothing'}{where}"


def _take(path: Path) -> list[Entry]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            info = os.fstat(file.fileno())
            is_own = stat.S_ISREG(info.st_mode) and info.st_uid == os.getuid() and info.st_size <= _LARGEST_BYTES
            data = file.read() if is_own else b""
        path.unlink(missing_ok=True)
    except OSError:
        return []
    return parse_flight(data)
