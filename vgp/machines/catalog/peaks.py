"""How fast a GPU multiplies at most: what an hour on one is worth beside an hour on another."""

#: Dense bfloat16 peak in TFLOP/s by the name of the accelerator, float16 where it has no bfloat16; sources and dates
#: beside the same figures in vgp/train/loop/progress.py, to which a test holds these. What is missing (P4, P100, RTX
#: PRO 6000) has none there.
_TFLOPS = {
    "NVIDIA_GB200": 2500.0,
    "NVIDIA_B200": 2250.0,
    "NVIDIA_H200_141GB": 989.5,
    "NVIDIA_H100_80GB": 989.5,
    "NVIDIA_H100_MEGA_80GB": 989.5,
    "NVIDIA_A100_80GB": 312.0,
    "NVIDIA_TESLA_A100": 312.0,
    "NVIDIA_L4": 121.0,
    "NVIDIA_TESLA_V100": 125.0,
    "NVIDIA_TESLA_T4": 65.0,
}


def peak_tflops(accelerator: str | None) -> float | None:
    """Of one GPU; None where that is not known."""
    return _TFLOPS.get(accelerator or "")
