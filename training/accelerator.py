"""How fast a GPU can be at most, and what share of that a training run uses (model FLOPs utilisation, MFU)."""

from dataclasses import dataclass

#: Dense bfloat16 tensor-core peaks in TFLOP/s, by a part of `torch.cuda.get_device_name()`; the first that fits.
#: From NVIDIA's data sheets, where figures "with sparsity" are twice these.
PEAKS_TFLOPS = (
    ("GB300", 2500.0),  # https://www.nvidia.com/en-us/data-center/gb300-nvl72/ (NVL72: 360 PFLOP/s sparse of 72)
    ("GB200", 2500.0),  # https://www.nvidia.com/en-us/data-center/gb200-nvl72/
    ("B200", 2250.0),  # https://www.nvidia.com/en-us/data-center/dgx-b200/ (72 PFLOP/s FP8 of 8, sparse)
    ("H200", 989.4),  # https://www.nvidia.com/en-us/data-center/h200/
    ("H100 PCIe", 756.5),  # https://www.nvidia.com/en-us/data-center/h100/
    ("H100 NVL", 835.5),
    ("H100", 989.4),
    ("A100", 312.0),  # https://www.nvidia.com/en-us/data-center/a100/
    ("L40S", 362.0),  # https://www.nvidia.com/en-us/data-center/l40s/
    ("L40", 181.0),  # https://www.nvidia.com/en-us/data-center/l40/
    ("L4", 121.0),  # https://www.nvidia.com/en-us/data-center/l4/
)


@dataclass(frozen=True)
class Workload:
    """What one row of the data is to the hardware."""

    #: What throughput is counted in, and how many of it a row is.
    unit: str = "samples"
    units_per_row: int = 1
    #: Floating-point operations of training on one row, forward and backward; 0 = not known, and no MFU is shown.
    flops_per_row: float = 0.0


def peak_flops(device_name: str) -> float | None:
    """Dense bfloat16 FLOP/s of a GPU by the name that CUDA gives it; None if it is not known, as on a CPU."""
    return next((tera * 1e12 for name, tera in PEAKS_TFLOPS if name in device_name), None)


def utilisation(flops_per_s: float, device_name: str, devices: int) -> float | None:
    """The share of the peak of all devices; None where the peak or the work is not known."""
    peak = peak_flops(device_name)
    return flops_per_s / (peak * devices) if peak and flops_per_s else None


def throughput(work: Workload, rows_per_s: float, device_name: str, devices: int) -> dict[str, float]:
    """Figures of a run beside samples/s: its own unit, such as `tokens_per_s`, and `mfu` where it is known."""
    share = utilisation(rows_per_s * work.flops_per_row, device_name, devices)
    own = {} if work.unit == "samples" else {f"{work.unit}_per_s": round(rows_per_s * work.units_per_row, 1)}
    return own if share is None else own | {"mfu": round(share, 4)}
