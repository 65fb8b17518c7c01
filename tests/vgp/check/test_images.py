"""What an image's name tells of its CUDA, against the GPU that it would run on."""

import pytest

from vgp.check.container_facts import image_problems as problems

B200, RTX, V100, H100 = "NVIDIA_B200", "NVIDIA_RTX_PRO_6000", "NVIDIA_TESLA_V100", "NVIDIA_H100_80GB"


@pytest.mark.parametrize(
    ("image", "accelerator", "message"),
    [
        ("us-docker.pkg.dev/p/r/torch:2.8.0-cu126", B200, "has CUDA 12.6; NVIDIA_B200 needs 12.8 or newer"),
        ("pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime", RTX, "has CUDA 12.4; NVIDIA_RTX_PRO_6000 needs 12.8"),
        ("nvidia/cuda:11.7.1-runtime-ubuntu22.04", H100, "has CUDA 11.7"),
        ("us-docker.pkg.dev/p/r/torch:2.9.0-cu130", V100, "has CUDA 13.0, without kernels for NVIDIA_TESLA_V100"),
    ],
)
def test_an_image_without_kernels_for_its_gpu_is_told(image: str, accelerator: str, message: str) -> None:
    (problem,) = problems(image, "python train.py", accelerator, None)
    assert problem.rule == "GPU016" and message in problem.message


@pytest.mark.parametrize(
    ("image", "accelerator"),
    [
        ("us-docker.pkg.dev/p/r/torch:2.8.0-cu128", B200),
        ("us-docker.pkg.dev/p/r/torch:2.8.0-cu126", V100),
        ("us-docker.pkg.dev/p/r/torch:2.9.0-cu130", H100),
        ("us-docker.pkg.dev/p/r/focu110-nightly:1", B200),
        ("us-docker.pkg.dev/p/r/mine@sha256:" + "c" * 64, B200),
    ],
)
def test_an_image_with_kernels_and_one_that_tells_nothing_pass(image: str, accelerator: str) -> None:
    assert problems(image, "python train.py", accelerator, None) == []
