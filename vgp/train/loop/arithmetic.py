"""Resolves and applies the settings of arithmetic: precision, compilation, deterministic kernels, recomputation.

A run resolves `auto` values once, at its start, from its model and device. Checkpoints hold the resolved values, and a
resumed run keeps them on every machine.
"""

import importlib.util
import os
import re
import shutil
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts, noop_context_fn

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.train.loop import precision
from vgp.train.train_config import AUTO_FIELDS, TrainConfig

#: Number of parameters from which `auto` compiles a model on a GPU and allows any order of additions. Smaller models
#: spend their time between kernels or on reading data, and compiling takes a minute: an estimate, not measured.
LARGE = 50_000_000


@dataclass(frozen=True)
class Choice:
    """A configuration with every `auto` resolved, and the reasons."""

    config: TrainConfig
    #: The reason for each resolved field of `AUTO_FIELDS`.
    reasons: Mapping[str, str]

    def chosen(self) -> JsonObject:
        return {name: getattr(self.config, name) for name in AUTO_FIELDS}

    def __str__(self) -> str:
        values = {name: str(value).lower() for name, value in self.chosen().items()}
        return ", ".join(f"{name}={values[name]} ({self.reasons.get(name, 'as set')})" for name in AUTO_FIELDS)


def resolve_arithmetic(
    config: TrainConfig, module: nn.Module, device: torch.device, begun: JsonObject, operation: str = ""
) -> Choice:
    """Resolves the `auto` fields of a configuration.

    Args:
        begun: The values that the resumed run resolved at its start; empty for a new run.
        operation: The operation of PyTorch that has no deterministic kernel here (`NotDeterministic`); "" = none.

    Raises:
        UserError: compile=true, but this machine cannot compile.
    """
    parameters = sum(parameter.numel() for parameter in module.parameters())
    values: JsonObject = {}
    reasons: dict[str, str] = {}
    for name, resolve in (
        ("precision", _choose_precision),
        ("deterministic", _choose_determinism),
        ("compile", _choose_compilation),
    ):
        if getattr(config, name) == "auto":
            value, reason = resolve(config.model_copy(update=values), parameters, device)
            values[name], reasons[name] = (begun[name], "as the run began") if name in begun else (value, reason)
    if operation and "deterministic" in reasons:
        values["deterministic"], reasons["deterministic"] = False, f"{operation} has no deterministic kernel here"
    if slow := _slow(values.get("precision", config.precision), device):
        reasons["precision"] = f"{reasons.get('precision', 'as set')}; {slow}"
    settled = config.model_copy(update=values)
    obstacle = _obstacle(settled, device) if settled.compile else ""
    if obstacle and "compile" not in reasons:
        raise UserError(f"compile=true, but {obstacle}. Set compile=auto, or train in an image that can compile.")
    if obstacle:
        settled = settled.model_copy(update={"compile": False})
        reasons["compile"] = f"the run began compiled, but here {obstacle}"
    return Choice(settled, reasons)


def _choose_precision(config: TrainConfig, parameters: int, device: torch.device) -> tuple[str, str]:
    if device.type != "cuda":
        return "fp32", "on a CPU"
    name = torch.cuda.get_device_name(device)
    if precision.has_bf16(device):
        return "bf16", f"{name} supports it"
    if precision.has_fp16(device):
        return "fp16", f"{name} has no bfloat16, but tensor cores for float16"
    return "fp32", f"{name} has no bfloat16, and no tensor cores"


def _slow(name: str, device: torch.device) -> str:
    """Returns why steps are slow in this precision on this device; "" = they are not."""
    is_missing = name == "bf16" and not precision.has_bf16(device) or name == "fp16" and not precision.has_fp16(device)
    if not is_missing:
        return ""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "a CPU"
    return f"{name} has no hardware for it, and steps are slow"


def _choose_determinism(config: TrainConfig, parameters: int, device: torch.device) -> tuple[bool, str]:
    if config.exact:
        return True, "exact=true"
    large, reason = _is_large(parameters, device)
    return not large, reason


def _choose_compilation(config: TrainConfig, parameters: int, device: torch.device) -> tuple[bool, str]:
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
    """Returns the reason why torch.compile does not work on this machine; "" = it works."""
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
        return f"{torch.cuda.get_device_name(device)} is too old for Triton"
    if config.precision == "bf16" and not precision.has_bf16(device):
        return f"{torch.cuda.get_device_name(device)} only emulates bfloat16"
    return ""


#: Attention kernels with a deterministic mode; torch refuses cuDNN's in that mode (randomness notes of PyTorch).
_DETERMINISTIC = (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH)
#: Major compute capabilities of Hopper and Blackwell, where cuDNN's attention is reported as 1.7 to 2.3 times as fast
#: as flash (https://github.com/huggingface/transformers/pull/48163); not measured here.
_CUDNN_IS_FASTEST = (9, 10)


def select_kernels(deterministic: bool, device: torch.device, *, tf32: bool = False) -> ExitStack:
    """Selects the kernels of this process, for eager and compiled forward and backward passes.

    Args:
        tf32: Whether float32 products may be rounded to TF32.

    Returns:
        The context that keeps the order of attention kernels in force; keep a reference to it.
    """
    make_deterministic(deterministic)
    allow_tf32(tf32)
    context = ExitStack()
    if device.type == "cuda":
        order = attention_order(deterministic, torch.cuda.get_device_capability(device))
        context.enter_context(sdpa_kernel(order, set_priority=True))
    return context


def make_deterministic(is_on: bool) -> None:
    """Turns deterministic algorithms on or off: https://docs.pytorch.org/docs/stable/notes/randomness.html"""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(is_on)
    # A debugging aid that costs a pass over all memory.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = not is_on


class NotDeterministic(UserError):
    """An operation that has no deterministic kernel on this device, though `deterministic` is true.

    Attributes:
        operation: Its name in PyTorch, for example `upsample_bilinear2d_backward_out_cuda`.
    """

    def __init__(self, operation: str):
        super().__init__(
            f"{operation} of PyTorch has no deterministic kernel on this device, and deterministic=true. Set "
            "training_options.deterministic=false, without exact=true, or replace the operation in the model: "
            "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html lists them."
        )
        self.operation = operation


@contextmanager
def named_operations() -> Iterator[None]:
    """Raises NotDeterministic for PyTorch's error about an operation without a deterministic kernel.

    The text is that of `Context::alertNotDeterministic`:
    https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/Context.cpp
    """
    try:
        yield
    except RuntimeError as error:
        found = re.search(r"(\w+) does not have a deterministic implementation", str(error))
        if not found:
            raise
        raise NotDeterministic(found[1]) from None


def allow_tf32(is_allowed: bool) -> None:
    """Allows or forbids TF32. Convolutions use it by default; 10 bits round 101,325 +- 100 to 101,312 or 101,376."""
    torch.backends.cuda.matmul.allow_tf32 = is_allowed
    torch.backends.cudnn.allow_tf32 = is_allowed


def attention_order(deterministic: bool, capability: tuple[int, int]) -> list[SDPBackend]:
    """Returns the allowed kernels of `scaled_dot_product_attention`, fastest first; torch uses the first that works."""
    if deterministic or capability[0] not in _CUDNN_IS_FASTEST:
        return list(_DETERMINISTIC)
    return [SDPBackend.CUDNN_ATTENTION, *_DETERMINISTIC]


#: Operators whose results `activation_checkpointing=selective` keeps: those with the most work for their memory.
_KEPT = tuple(
    getattr(torch.ops.aten, name).default
    for name in (
        "mm", "addmm", "bmm", "baddbmm", "convolution", "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
    )
)  # fmt: skip


def recompute_blocks(blocks: Sequence[nn.Module], *, is_selective: bool = False) -> None:
    """Turns on activation checkpointing: keeps only the inputs of a block, and runs it again in the backward pass.

    Dropout draws equal masks in both passes. Blocks with batch norm are left out: a second pass would count their batch
    twice.

    Args:
        is_selective: Whether to keep the results of matrix products and attention too.

    Raises:
        UserError: no block can be recomputed.
    """
    eligible = [block for block in blocks if not any(isinstance(m, _BatchNorm) for m in block.modules())]
    if not eligible:
        raise UserError(
            "activation_checkpointing finds no blocks to recompute: keep the model's repeated blocks, without "
            "batch norm, in an nn.ModuleList, or name them in the task's `blocks`."
        )
    contexts = partial(create_selective_checkpoint_contexts, list(_KEPT)) if is_selective else noop_context_fn
    for block in eligible:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False, context_fn=contexts)


def compile_blocks(module: nn.Module, parts: Sequence[nn.Module], *, deterministic: bool, asked: bool) -> None:
    """Compiles each part, such as a block, or the whole model if there are no parts.

    Equal blocks share one compilation, and the gradients of a block are sent while the next block is computed.

    Args:
        deterministic: Whether kernels must not be chosen by measured times, which differ from run to run.
        asked: Whether the user set compile=true; else parts that cannot be compiled run eagerly, with a warning.
    """
    import torch._dynamo.config
    import torch._inductor.config

    torch._inductor.config.deterministic = deterministic
    torch._dynamo.config.suppress_errors = not asked
    for part in parts:
        part.forward = torch.compile(part.forward)
    if not parts:
        module.compile()
