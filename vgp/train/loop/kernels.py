"""Which kernels compute on a GPU: those that give the same bits every time, or the fastest."""

import os
from contextlib import ExitStack

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

#: Those that are deterministic where they are told to be; torch refuses cuDNN's then (randomness notes of PyTorch).
_DETERMINISTIC = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
#: Of the compute capabilities of Hopper and Blackwell, on which cuDNN's attention was reported 1.7 to 2.3 times as fast
#: as flash (https://github.com/huggingface/transformers/pull/48163); not measured by us.
_CUDNN_IS_FASTEST = (9, 10)


def chosen(deterministic: bool, device: torch.device, *, tf32: bool = False) -> ExitStack:
    """Sets what the process computes with, in the forward and the backward pass and where it is compiled.

    Args:
        tf32: Whether float32 products may be rounded to TF32.

    Returns:
        What holds the order of the kernels of attention, as long as it is there.
    """
    make_deterministic(deterministic)
    allow_tf32(tf32)
    held = ExitStack()
    if device.type == "cuda":
        order = attention_order(deterministic, torch.cuda.get_device_capability(device))
        held.enter_context(sdpa_kernel(order, set_priority=True))
    return held


def make_deterministic(wanted: bool) -> None:
    """Same inputs, same bits: https://docs.pytorch.org/docs/stable/notes/randomness.html"""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(wanted)
    # A debugging aid that costs a pass over all memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = not wanted


def allow_tf32(wanted: bool) -> None:
    """Convolutions would take TF32 unasked: its 10 bits of 101,325 +- 100 leave 101,312 and 101,376."""
    torch.backends.cuda.matmul.allow_tf32 = wanted
    torch.backends.cudnn.allow_tf32 = wanted


def attention_order(deterministic: bool, capability: tuple[int, int]) -> list[SDPBackend]:
    """The kernels of `scaled_dot_product_attention` that may be taken, the fastest first; the first that can is."""
    if deterministic or capability[0] not in _CUDNN_IS_FASTEST:
        return list(_DETERMINISTIC)
    return [SDPBackend.CUDNN_ATTENTION, *_DETERMINISTIC]
