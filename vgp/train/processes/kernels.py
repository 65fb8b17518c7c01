"""Whether the PyTorch of this image can compute on the GPU of this machine: asked before any work."""

import re
from collections.abc import Sequence

import torch

from vgp.base.exits import UserError


def require(device: torch.device, gpus: int) -> None:
    """Raises UserError if the machine has GPUs that PyTorch cannot use.

    Args:
        device: What PyTorch computes on.
        gpus: GPUs that the driver shows to this process.
    """
    if device.type == "cpu" and gpus and not torch.version.hip:
        raise UserError(
            f"this machine has {gpus} GPUs, and PyTorch {torch.__version__} cannot use them: "
            + ("it was built without CUDA" if torch.version.cuda is None else "their driver is too old for its CUDA")
            + ". Take another image, or set CUDA_VISIBLE_DEVICES= (empty) to train on the CPU."
        )
    if device.type == "cuda" and not torch.version.hip:
        capability = torch.cuda.get_device_capability(device)
        if not covers(torch.cuda.get_arch_list(), capability):
            raise UserError(sentence(torch.cuda.get_device_name(device), capability))


def covers(architectures: Sequence[str], capability: tuple[int, int]) -> bool:
    """Whether kernels for these architectures run on a GPU of this capability; true where none are listed.

    Machine code (`sm_86`) runs on the same major and no smaller minor number, intermediate code (`compute_86`) on all
    that are newer; with the letter a, on that GPU alone
    (https://docs.nvidia.com/cuda/blackwell-compatibility-guide/).
    """
    return not architectures or any(_runs(name, capability) for name in architectures)


def sentence(gpu: str, capability: tuple[int, int]) -> str:
    there = ", ".join(torch.cuda.get_arch_list())
    return (
        f"this image's PyTorch {torch.__version__} has kernels for {there}; the GPU, {gpu}, is "
        f"sm_{capability[0]}{capability[1]}, on which none of them runs. Take an image with a PyTorch for this GPU, or "
        "another GPU."
    )


def _runs(architecture: str, capability: tuple[int, int]) -> bool:
    parts = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", architecture)
    if not parts:
        return False
    kind, has, letter = parts[1], (int(parts[2]), int(parts[3])), parts[4]
    if letter == "a":
        return has == capability
    if kind == "compute" and not letter:
        return has <= capability
    return has[0] == capability[0] and has[1] <= capability[1]
