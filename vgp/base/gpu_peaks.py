"""Peak FLOP/s of GPUs, for the utilisation of the training and for comparing machines."""

#: Dense bfloat16 tensor-core peaks in TFLOP/s, by a part of `torch.cuda.get_device_name()`; the first match counts.
#: NVIDIA's figures "with sparsity" are halved. The URLs are NVIDIA's, but the figures were compared with third-party
#: quotes of those pages (2026-11-21), not with the pages; the quotes for the L40 and the B300 name no source. For GPUs
#: without bfloat16 the peak is float16's, from quotes of their data sheets (2026-11-22). A GPU that is not listed, such
#: as the RTX PRO 6000 or the P100 (no tensor cores), gets no MFU.
PEAKS_TFLOPS = (
    ("GB300", 2500.0),  # https://www.nvidia.com/en-us/data-center/gb300-nvl72/: 360 PFLOP/s sparse of 72
    ("GB200", 2500.0),  # https://www.nvidia.com/en-us/data-center/gb200-nvl72/: 360 PFLOP/s sparse of 72
    ("B300", 2250.0),  # https://www.nvidia.com/en-us/data-center/hgx/: 36 PFLOP/s sparse of 8
    ("B200", 2250.0),  # https://www.nvidia.com/en-us/data-center/hgx/: 36 PFLOP/s sparse of 8
    ("H200 NVL", 835.5),  # https://www.nvidia.com/en-us/data-center/h200/: 1,671 sparse
    ("H200", 989.5),  # https://www.nvidia.com/en-us/data-center/h200/: 1,979 sparse
    ("H100 NVL", 835.5),  # https://www.nvidia.com/en-us/data-center/h100/: 1,671 sparse
    ("H100 PCIe", 756.5),  # https://www.nvidia.com/en-us/data-center/h100/ (2023): 1,513 sparse
    ("H100", 989.5),  # https://www.nvidia.com/en-us/data-center/h100/: 1,979 sparse
    ("A100", 312.0),  # https://www.nvidia.com/en-us/data-center/a100/: 312, 624 sparse
    ("L40S", 362.0),  # https://www.nvidia.com/en-us/data-center/l40s/: 362.05, 733 sparse
    ("L40", 181.0),  # https://www.nvidia.com/en-us/data-center/l40/: 181.05, 362.1 sparse
    ("L4", 121.0),  # https://www.nvidia.com/en-us/data-center/l4/: 242 sparse
    # https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf
    ("V100S", 130.0),
    ("V100-PCIE", 112.0),
    ("V100", 125.0),  # SXM2, which Google Cloud has
    # https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf
    ("Tesla T4", 65.0),
)


def peak_flops(device_name: str) -> float | None:
    """Returns the dense bfloat16 FLOP/s (float16 without bfloat16) of a GPU by its CUDA name; None if unknown."""
    return next((tera * 1e12 for name, tera in PEAKS_TFLOPS if name in device_name), None)


def peak_of_accelerator(accelerator: str) -> float | None:
    """Returns the peak FLOP/s by the accelerator type of Vertex AI (NVIDIA_TESLA_T4, NVIDIA_H100_80GB); None if
    unknown."""
    return peak_flops(accelerator.removeprefix("NVIDIA_").replace("TESLA_", "Tesla "))
