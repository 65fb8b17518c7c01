"""How much memory is left, on the host and on a device, how it comes back, and what lay there when none was left.

What a GPU's allocator held is written by PyTorch, for its own viewer, which reads nothing but its pickles; it does so
in the browser and runs nothing of them. No program of ours opens one. Not verified on a GPU.
https://docs.pytorch.org/docs/stable/torch_cuda_memory.html
"""

import contextlib
import ctypes
import resource
import sys
import tempfile
from pathlib import Path

import torch

from vgp.base import memory
from vgp.base.storage import objects
from vgp.train.config import TrainConfig
from vgp.train.loop import precision
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import Rank

#: Allocations whose stacks are kept; PyTorch's documentation expects several KB for each.
_HISTORY = 20_000


def free_bytes(device: torch.device) -> int:
    """What a model may take that is made on the host and then moved to the device; where nobody says, all there is."""
    free = [memory.free_bytes()]
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        free.append(torch.cuda.mem_get_info(device)[0] + unused)
    return min(free)


def return_what_is_freed() -> None:
    """Has the C library give the memory of large tensors back to the system as soon as they are freed.

    Otherwise glibc keeps blocks of up to 32 MiB in a heap full of gaps, which grew to three times what was in use
    (M_MMAP_THRESHOLD, mallopt(3)). Other libraries do not have the call.
    """
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).mallopt(-3, 1 << 20)


def peak_bytes(device: torch.device) -> int:
    """What this process has held at most: of the GPU's memory in tensors, or of the host's where there is no GPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS
    return kib if sys.platform == "darwin" else kib << 10


def remember_allocations(request: TrainingRequest, rank: Rank) -> None:
    """Keeps the stacks of the last allocations, where that is asked for: before the model takes any memory."""
    if request.config.memory_snapshot == "history" and rank.device.type == "cuda":
        torch.cuda.memory._record_memory_history(stacks="python", max_entries=_HISTORY)


def what_needs_less(config: TrainConfig, microbatches: int, rows: int, device: torch.device) -> list[str]:
    """What can be changed so that a step fits into the memory of a GPU: nothing that is so already, or could not be.

    Args:
        config: Of the training that ran out of memory, with nothing left open.
        microbatches: Of each step, over all ranks.
        rows: Of a microbatch.
    """
    half = precision.has_bf16(device) or precision.has_fp16(device)
    sharded = config.strategy == "fsdp"
    fixes = {
        f"microbatches={2 * microbatches} or more (now {microbatches} of {rows} rows)": rows > 1,
        "activation_checkpointing=true": not config.activation_checkpointing,
        "precision=auto": half and config.precision == "fp32",
        "strategy=fsdp with several GPUs": not sharded and not config.exact,
        "more GPUs": sharded,
        "cpu_offload=true": sharded and not config.cpu_offload,
        "a GPU with more memory": True,
    }
    return [fix for fix, helps in fixes.items() if helps]


def snapshot(request: TrainingRequest, rank: Rank, step: int) -> str:
    """Writes what lies in the GPU's memory beside the checkpoints; a sentence that says where, "" if it is not written.

    Args:
        step: The number of the step that ran out of memory, from 0.
    """
    if request.config.memory_snapshot == "off" or rank.device.type != "cuda":
        return ""
    place = f"{request.checkpoints}/memory/run{request.run:03}-step{step:09}-rank{rank.rank:03}"
    try:
        with tempfile.TemporaryDirectory(prefix="memory-") as folder:
            summary, blocks = Path(folder, "summary.txt"), Path(folder, "blocks.pickle")
            summary.write_text(torch.cuda.memory_summary(rank.device))
            objects.put(summary, f"{place}.txt")
            torch.cuda.memory._dump_snapshot(str(blocks))  # type: ignore[no-untyped-call]
            objects.put(blocks, f"{place}.pickle")
    except (OSError, RuntimeError) as error:
        return f"No snapshot of the memory could be written: {error}"
    more = "" if request.config.memory_snapshot == "history" else "; with memory_snapshot=history it tells which lines"
    return (
        f"What lay in memory: {place}.txt; block by block: drop {place}.pickle on https://pytorch.org/memory_viz{more}."
    )
