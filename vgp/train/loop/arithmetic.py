"""How a run computes: precision, compilation, deterministic kernels, blocks that are computed again.

It is chosen once, when the run begins, by its model and its device. Checkpoints hold what was chosen, and whoever goes
on from one computes in the same way, on whatever machine: another choice would be another run.
"""

import importlib.util
import os
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.train.config import OPEN, TrainConfig
from vgp.train.loop import precision

#: Parameters from which a model on a GPU is compiled and may add in any order. Smaller ones spend their time between
#: kernels or in reading data, not in them, and compiling takes a minute: an estimate, not measured on a GPU.
LARGE = 50_000_000


@dataclass(frozen=True)
class Choice:
    """A configuration without anything left open, and why it is as it is."""

    config: TrainConfig
    #: By field of `OPEN` that was left open.
    reasons: Mapping[str, str]

    def chosen(self) -> JsonObject:
        return {name: getattr(self.config, name) for name in OPEN}

    def __str__(self) -> str:
        told = {name: self.reasons.get(name, "as set") for name in OPEN}
        values = {name: str(value).lower() for name, value in self.chosen().items()}
        return ", ".join(f"{name}={values[name]} ({told[name]})" for name in OPEN)


def choose(config: TrainConfig, module: nn.Module, device: torch.device, begun: JsonObject) -> Choice:
    """Settles what is left open.

    Args:
        begun: What was chosen when the run began that is gone on with; empty for a new run.

    Raises:
        UserError: it is to be compiled, which cannot be done here.
    """
    parameters = sum(parameter.numel() for parameter in module.parameters())
    values: JsonObject = {}
    reasons: dict[str, str] = {}
    for name, of_new_run in (("precision", _precision), ("deterministic", _determinism), ("compile", _compilation)):
        if getattr(config, name) == "auto":
            value, reason = of_new_run(config.model_copy(update=values), parameters, device)
            values[name], reasons[name] = (begun[name], "as the run began") if name in begun else (value, reason)
    if slow := _slow(values.get("precision", config.precision), device):
        reasons["precision"] = f"{reasons.get('precision', 'as set')}; {slow}"
    settled = config.model_copy(update=values)
    obstacle = _obstacle(settled, device) if settled.compile else ""
    if obstacle and "compile" not in reasons:
        raise UserError(f"compile=true, but {obstacle}. Leave compile at auto, or train in an image that has it.")
    if obstacle:
        settled = settled.model_copy(update={"compile": False})
        reasons["compile"] = f"the run began compiled, but here {obstacle}"
    return Choice(settled, reasons)


def _precision(config: TrainConfig, parameters: int, device: torch.device) -> tuple[str, str]:
    if device.type != "cuda":
        return "fp32", "on a CPU"
    name = torch.cuda.get_device_name(device)
    if precision.has_bf16(device):
        return "bf16", f"{name} has it"
    if precision.has_fp16(device):
        return "fp16", f"{name} has no bfloat16, but tensor cores for float16"
    return "fp32", f"{name} has no bfloat16, and no tensor cores"


def _slow(chosen: str, device: torch.device) -> str:
    """Why steps will be slow in that precision on this device; "" = they will not. What is computed stays the same."""
    missing = chosen == "bf16" and not precision.has_bf16(device) or chosen == "fp16" and not precision.has_fp16(device)
    if not missing:
        return ""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU"
    return f"{name} has no hardware for it, and steps are slow"


def _determinism(config: TrainConfig, parameters: int, device: torch.device) -> tuple[bool, str]:
    if config.exact:
        return True, "exact=true"
    large, reason = _is_large(parameters, device)
    return not large, reason


def _compilation(config: TrainConfig, parameters: int, device: torch.device) -> tuple[bool, str]:
    if config.exact:
        return False, "exact=true"
    large, reason = _is_large(parameters, device)
    if large and (obstacle := _obstacle(config, device)):
        return False, obstacle
    return large, reason


def _is_large(parameters: int, device: torch.device) -> tuple[bool, str]:
    if device.type != "cuda":
        return False, "on a CPU"
    if parameters < LARGE:
        return False, f"{parameters:,} parameters, fewer than {LARGE:,}"
    return True, f"{parameters:,} parameters on a GPU"


def _obstacle(config: TrainConfig, device: torch.device) -> str:
    """What torch.compile would need here and does not have; "" = nothing."""
    compilers = ("CC", "gcc", "clang", "cc") if device.type == "cuda" else ("CXX", "g++", "clang++", "c++")
    variable, *commands = compilers
    if not os.environ.get(variable) and not any(map(shutil.which, commands)):
        return f"there is no compiler ({', '.join(commands)})"
    if device.type != "cuda":
        return ""
    if importlib.util.find_spec("triton") is None:
        return "there is no Triton"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "Python's headers are missing (python3-dev)"
    if torch.cuda.get_device_capability(device) < (7, 0):
        return f"{torch.cuda.get_device_name(device)} is older than Triton takes"
    if config.precision == "bf16" and not precision.has_bf16(device):
        return f"{torch.cuda.get_device_name(device)} only emulates bfloat16"
    return ""


# ---- which kernels compute on a GPU: those that give the same bits every time, or the fastest


#: Those that are deterministic where they are told to be; torch refuses cuDNN's then (randomness notes of PyTorch).
_DETERMINISTIC = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
#: Of the compute capabilities of Hopper and Blackwell, on which cuDNN's attention was reported 1.7 to 2.3 times as fast
#: as flash (https://github.com/huggingface/transformers/pull/48163); not measured by us.
_CUDNN_IS_FASTEST = (9, 10)


def uses_deterministic(deterministic: bool, device: torch.device, *, tf32: bool = False) -> ExitStack:
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


def recompute_blocks(blocks: Sequence[nn.Module]) -> None:
    """Activation checkpointing: keeps only what goes into a block, and runs it again in the backward pass.

    Dropout draws the same again. Blocks with batch norm stay as they are: a second pass would count a batch twice.

    Raises:
        UserError: no block can be recomputed.
    """
    chosen = [block for block in blocks if not any(isinstance(m, _BatchNorm) for m in block.modules())]
    if not chosen:
        raise UserError(
            "activation_checkpointing=true finds no blocks to recompute: keep the model's repeated blocks, without "
            "batch norm, in an nn.ModuleList, or name them in the task's `blocks`."
        )
    for block in chosen:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)


def compile_blocks(module: nn.Module, parts: Sequence[nn.Module], *, deterministic: bool, asked: bool) -> None:
    """Compiles each part, such as a block, or the whole model where there are none.

    Equal blocks share one compilation, and gradients of a block leave while the next one is still computed.

    Args:
        deterministic: Whether kernels must not be chosen by their time, which differs from run to run.
        asked: Whether the user wants it; else what cannot be compiled runs as it is, with a warning of PyTorch.
    """
    import torch._dynamo.config
    import torch._inductor.config

    torch._inductor.config.deterministic = deterministic
    torch._dynamo.config.suppress_errors = not asked
    for part in parts:
        part.forward = torch.compile(part.forward)
    if not parts:
        module.compile()
