"""What the ranks said to each other last: the flight recorder of PyTorch's process groups, read and put into words.

A rank that waits in vain leaves the recorder's dump: NCCL's watchdog writes it, and so do we over gloo.
"""

import io
import os
import pickle
import secrets
import stat
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

#: Both read by PyTorch 2.13: the first is the new name of the second.
_FILE_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_LARGEST_BYTES = 64 << 20
#: In these every rank gives as much as every other.
_SAME_SIZES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")

Entry = Mapping[str, Any]


class Recorder:
    """The dumps of this machine's ranks, from before they are forked until they are read."""

    def __init__(self) -> None:
        self.prefix = f"{tempfile.gettempdir()}/flight-{secrets.token_hex(8)}-"

    def switch_on(self) -> None:
        """For processes that are forked from now on."""
        for name in _FILE_VARIABLES:
            os.environ[name] = self.prefix
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")
        os.environ.setdefault("TORCH_NCCL_TRACE_BUFFER_SIZE", "2000")
        os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "1")

    def take(self, ranks: Iterable[int]) -> dict[int, list[Entry]]:
        """The recorded collectives of each rank that has left a dump; the files are gone then."""
        dumps = {rank: _taken(Path(f"{self.prefix}{rank}")) for rank in ranks}
        return {rank: entries for rank, entries in dumps.items() if entries}


def dump(rank: int) -> None:
    """Leaves this process's own record; NCCL's watchdog may have done so before."""
    from torch._C import _distributed_c10d

    path = os.environ.get(_FILE_VARIABLES[0], "") + str(rank)
    if os.path.isabs(path) and not os.path.exists(path):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(_distributed_c10d._dump_fr_trace())  # type: ignore[attr-defined]


class _Plain(pickle.Unpickler):
    """Reads numbers, texts, lists and dictionaries, which is all that the recorder writes; it calls nothing."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a record holds no {module}.{name}")


def parse(data: bytes) -> list[Entry]:
    """The collectives of a dump, in their order; none if it is not one."""
    try:
        record = _Plain(io.BytesIO(data)).load()
        entries = [entry for entry in record["entries"] if not entry["is_p2p"]]
        return sorted(entries, key=lambda entry: (_group(entry), int(entry["collective_seq_id"])))
    except Exception:  # a dump that was cut off breaks in many ways, and costs no more than its words
        return []


def explain(dumps: Mapping[int, list[Entry]]) -> str:
    """One sentence about the first collective that the ranks did not all call alike; "" if nothing tells."""
    groups = sorted({_group(entry) for entries in dumps.values() for entry in entries})
    for group in groups:
        calls = {r: {int(e["collective_seq_id"]): e for e in es if _group(e) == group} for r, es in dumps.items()}
        calls = {rank: numbered for rank, numbered in calls.items() if numbered}
        if text := len(calls) > 1 and _difference(calls):
            return text
    waiting = [f"rank {rank} in {_shown(entries[-1])}" for rank, entries in sorted(dumps.items())]
    return f"Last collective: {'; '.join(waiting)}." if waiting else ""


def _difference(calls: Mapping[int, Mapping[int, Entry]]) -> str:
    last = {rank: max(numbered) for rank, numbered in calls.items()}
    for number in range(max(map(min, calls.values())), min(last.values()) + 1):
        there = {rank: numbered[number] for rank, numbered in calls.items() if number in numbered}
        if len({_signature(entry) for entry in there.values()}) > 1:
            shown = "; ".join(f"rank {rank} called {_shown(entry)}" for rank, entry in sorted(there.items()))
            return (
                f"The ranks did not call the same collective as number {number}: {shown}. Look for a branch that "
                "differs from rank to rank, or for tensors of different shapes."
            )
    number = min(last.values()) + 1
    waiting = {rank: numbered[number] for rank, numbered in calls.items() if number in numbered}
    if not waiting:
        return ""
    absent = ", ".join(str(rank) for rank in sorted(calls) if rank not in waiting)
    rank, entry = min(waiting.items())
    return (
        f"Rank {', '.join(map(str, sorted(waiting)))} waited in collective number {number}, {_shown(entry)}; "
        f"rank {absent} has not called it."
    )


def _group(entry: Entry) -> str:
    return str(entry["process_group"][0])


def _signature(entry: Entry) -> tuple[str, str]:
    name = str(entry["profiling_name"])
    sized = any(kind in name for kind in _SAME_SIZES)
    return name, f"{entry['input_sizes']} {entry['input_dtypes']}" if sized else ""


def _shown(entry: Entry) -> str:
    """Such as `gloo:all_reduce of Float [1024] (train.py:17, loss)`."""
    tensors = ", ".join(f"{t} {list(s)}" for t, s in zip(entry["input_dtypes"], entry["input_sizes"], strict=False))
    frames = [f for f in entry.get("frames", ()) if "/torch/" not in f["filename"] and ".py" in f["filename"]]
    where = f" ({Path(frames[0]['filename']).name}:{frames[0]['line']}, {frames[0]['name']})" if frames else ""
    return f"{entry['profiling_name']} of {tensors or 'nothing'}{where}"


def _taken(path: Path) -> list[Entry]:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            about = os.fstat(file.fileno())
            own = stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and about.st_size <= _LARGEST_BYTES
            data = file.read() if own else b""
        path.unlink(missing_ok=True)
    except OSError:
        return []
    return parse(data)
