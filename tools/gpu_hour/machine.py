"""The GPUs of this machine: refuses those that would give wrong figures, and finds the largest model that fits.

Imports no PyTorch itself, so that a request is checked before PyTorch is imported.
"""

import importlib.metadata
import importlib.util
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

GIB = 2**30
#: The oldest PyTorch that the GPU hour runs on.
OLDEST_TORCH = (2, 11)
#: Bytes that a driver and an idle GPU take, and the use in percent up to which a GPU counts as idle.
IDLE_BYTES, IDLE_PERCENT = 2 * GIB, 20
#: Rows of a batch of the language model, most first; 1,024 tokens each.
ROWS = (64, 32, 16, 8, 4)
#: The width of the language model by its depth, its vocabulary, and the tokens of a row.
WIDTH, VOCABULARY, TOKENS = 64, 50_304, 1024
#: The depths of the language model, by the parameters that they give with a vocabulary of 50,304.
DEPTHS = {26: "1 B", 20: "490 M", 12: "124 M", 8: "51 M"}


class Refused(Exception):
    """A machine or a request that the GPU hour cannot use: what was found, the rule, and the fix."""


@dataclass(frozen=True)
class Gpu:
    """One GPU, as PyTorch and NVIDIA's management library see it."""

    name: str
    #: The id of the GPU, which a transcript must not hold.
    uuid: str
    capability: tuple[int, int]
    total_bytes: int
    #: Memory in use before this program used the GPU, and use in percent; nan = the driver does not report it.
    used_bytes: float
    use_percent: float


def require_torch() -> None:
    """Raises Refused without a PyTorch that is new enough; does not import it."""
    if importlib.util.find_spec("torch") is None:
        raise Refused("this Python has no PyTorch. Name one that has it: PYTHON=/path/to/python scripts/gpu_hour.sh")
    version = importlib.metadata.version("torch")
    found = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if found < OLDEST_TORCH:
        raise Refused(f"PyTorch is {version}; the GPU hour needs 2.11 or newer. Install a newer one.")


def read_gpus() -> tuple[list[Gpu], list[str]]:
    """Returns the GPUs that PyTorch sees, and the architectures of its kernels; starts CUDA."""
    import torch

    architectures = torch.cuda.get_arch_list() if torch.cuda.is_available() else []
    return [_read_gpu(number) for number in range(torch.cuda.device_count())], architectures


def _read_gpu(number: int) -> Gpu:
    import torch

    from vgp.train.processes.gpu_readings import Gpu as Reader

    found = torch.cuda.get_device_properties(number)
    reader = Reader(str(found.uuid))
    reading = reader.read()
    for _ in range(3):  # the use of the last second, maybe by a program that has ended
        if reading.use > IDLE_PERCENT:
            time.sleep(1)
            reading = reader.read()
    used = reading.memory_bytes
    if math.isnan(used):
        free, total = torch.cuda.mem_get_info(number)
        used = total - free
    return Gpu(found.name, str(found.uuid), (found.major, found.minor), found.total_memory, used, reading.use)


def require_gpus(gpus: Sequence[Gpu], architectures: Sequence[str]) -> None:
    """Raises Refused for a machine without a GPU, or with one that would give wrong figures.

    Args:
        architectures: The architectures of PyTorch's kernels, such as sm_90.
    """
    from vgp.train.processes.gpu_readings import supports_capability

    if not gpus:
        raise Refused(
            "PyTorch sees no GPU. Run on a machine with an NVIDIA GPU and its driver, with a PyTorch built for CUDA; "
            "to try the program without a GPU: scripts/gpu_hour.sh --on-cpu"
        )
    for number, gpu in enumerate(gpus):
        if "MIG" in gpu.name or gpu.uuid.startswith("MIG-"):
            raise Refused(
                f"GPU {number}, {gpu.name}, is a MIG slice: peak speed and use are known of whole GPUs only. Choose a "
                "whole GPU: CUDA_VISIBLE_DEVICES=0 scripts/gpu_hour.sh"
            )
        if not supports_capability(architectures, gpu.capability):
            raise Refused(
                f"GPU {number}, {gpu.name}, is sm_{gpu.capability[0]}{gpu.capability[1]}; this PyTorch has kernels for "
                f"{', '.join(architectures)} only. Install a PyTorch for this GPU, or use another GPU."
            )
        if gpu.used_bytes > IDLE_BYTES or gpu.use_percent > IDLE_PERCENT:
            percent = f", and is {gpu.use_percent:.0f} % busy" if not math.isnan(gpu.use_percent) else ""
            raise Refused(
                f"other programs use GPU {number}, {gpu.name}: {gpu.used_bytes / GIB:.1f} GiB are taken{percent}. "
                "Speeds would be wrong. End those programs (nvidia-smi lists them), or choose another GPU with "
                "CUDA_VISIBLE_DEVICES."
            )


def choose_rows(depth: int, total_bytes: int) -> int:
    """Returns the rows of a batch of a language model of this depth that fit a GPU; 0 = none do.

    State: 16 bytes a parameter. Activations of a row: 34 bytes a token, layer and unit of width, in half precision with
    flash attention; and 10 bytes a logit, for the plain loop (estimates). A tenth of the memory stays free.
    """
    left = 0.9 * total_bytes - 16 * count_parameters(depth)
    row = TOKENS * (34 * depth * WIDTH * depth + 10 * VOCABULARY)
    return next((rows for rows in ROWS if rows * row <= left), 0)


def count_parameters(depth: int) -> int:
    """Returns the approximate number of parameters of a language model of this depth."""
    return WIDTH * depth * VOCABULARY + 12 * depth * (WIDTH * depth) ** 2


def require_memory(slice_number: int, depth: int, total_bytes: int) -> None:
    """Raises Refused if a slice's largest model does not fit the GPU; names the largest one that does."""
    if slice_number not in (2, 3) or choose_rows(depth, total_bytes):
        return
    fitting = next((other for other in DEPTHS if other < depth and choose_rows(other, total_bytes)), 0)
    fix = f"The largest that fits has {DEPTHS[fitting]}: --largest {fitting}." if fitting else "Use a larger GPU."
    raise Refused(
        f"slice {slice_number} trains a language model of {DEPTHS.get(depth, f'depth {depth}')} parameters, which "
        f"needs more memory than this GPU has ({total_bytes / GIB:.0f} GiB). {fix}"
    )
