"""Slice 5: the machine, the kernels that PyTorch chooses, and the time to the first step of a training."""

import math
import platform
import shutil
import subprocess
import time
from typing import Any

import torch
from torch.nn import functional as F

from tools.gpu_hour.parts import Place

#: The side of the square matrices whose product is timed, and the shape of the attention, (B, H, T, K).
SIDE, ATTENTION = 8192, (8, 12, 1024, 128)


def describe_machine(place: Place) -> None:
    """Records versions, the GPU, what NVIDIA's management library reports, and kernels with their speed."""
    on_gpu = not place.on_cpu
    place.record("versions", python=platform.python_version(), torch=torch.__version__)
    if on_gpu:
        place.record("CUDA", cuda=torch.version.cuda, cudnn=torch.backends.cudnn.version(), driver=_read_driver(),
                     nccl=".".join(map(str, torch.cuda.nccl.version())))  # fmt: skip
        found = torch.cuda.get_device_properties(0)
        place.record("GPU", name=found.name, count=place.gpus, capability=f"{found.major}.{found.minor}",
                     memory_bytes=found.total_memory, multiprocessors=found.multi_processor_count,
                     architectures=torch.cuda.get_arch_list())  # fmt: skip
        place.attempt("NVML", lambda: place.record("NVML", **_read_nvml(str(found.uuid))))
    device, side = ("cuda", SIDE) if on_gpu else ("cpu", 64)
    matrix = torch.randn(side, side, device=device, dtype=torch.bfloat16)
    seconds = _time(lambda: matrix @ matrix, on_gpu)
    place.record("product", tflops=2 * side**3 / seconds / 1e12, kernels=_name_kernels(lambda: matrix @ matrix))
    shape = ATTENTION if on_gpu else (1, 1, 16, 8)
    heads = torch.randn(shape, device=device, dtype=torch.bfloat16, requires_grad=True)

    def attend() -> None:
        F.scaled_dot_product_attention(heads, heads, heads, is_causal=True).sum().backward()

    place.record("attention", ms=1000 * _time(attend, on_gpu), kernels=_name_kernels(attend))


def measure_start(place: Place) -> None:
    """Records the seconds from the command to the end of the first step, compiled, with empty and with full caches."""
    from tools.gpu_hour import training_process
    from tools.gpu_hour.tasks import write

    options = {"depth": 12, "sequence_length": 1024}
    if place.on_cpu:
        options = {"depth": 1, "sequence_length": 16, "tokens": 300}
    write("tools.gpu_hour.models:Tokens", options, 64, place.folder / "data")
    caches = {
        "TORCHINDUCTOR_CACHE_DIR": str(place.folder / "inductor"),
        "TRITON_CACHE_DIR": str(place.folder / "triton"),
    }
    for name in ("cold", "warm")[: 1 if place.on_cpu else 2]:
        settings = {"global_batch_size": 4, "compile": not place.on_cpu}
        words = training_process.make_command(place.folder / "data", place.folder / name, settings)
        began = time.perf_counter()
        training_process.train(words, kill="1:", environment=caches)
        place.record(name, first_step_s=time.perf_counter() - began)


def _read_driver() -> str:
    command = shutil.which("nvidia-smi")
    if not command:
        return "unknown"
    words = [command, "--query-gpu=driver_version", "--format=csv,noheader"]
    return subprocess.run(words, capture_output=True, text=True, timeout=60).stdout.split("\n")[0].strip()


def _read_nvml(uuid: str) -> dict[str, Any]:
    from vgp.train.processes.gpu_readings import Gpu

    values = vars(Gpu(uuid).read())
    return {name: None if math.isnan(value) else value for name, value in values.items()}


def _time(act: Any, on_gpu: bool) -> float:
    """Returns the mean seconds of ten calls after three."""
    for _ in range(3):
        act()
    if on_gpu:
        torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(10):
        act()
    if on_gpu:
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / 10


def _name_kernels(act: Any) -> list[str]:
    """Returns the names of the kernels that took longest, at most three; of a CPU, of its operators."""
    kinds = torch.profiler.ProfilerActivity
    on_gpu = torch.cuda.is_available()
    with torch.profiler.profile(activities=[kinds.CPU, *([kinds.CUDA] if on_gpu else [])]) as trace:
        act()
        if on_gpu:
            torch.cuda.synchronize()
    rows = [row for row in trace.key_averages() if (row.device_type == torch.autograd.DeviceType.CUDA) == on_gpu]
    rows.sort(key=lambda row: -(row.self_device_time_total if on_gpu else row.self_cpu_time_total))
    return [row.key[:80] for row in rows[:3]]
