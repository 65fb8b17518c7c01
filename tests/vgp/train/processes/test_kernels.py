import pytest
import torch

from vgp.base.exits import UserError
from vgp.train.processes import kernels

WHEEL = ["sm_75", "sm_80", "sm_86", "sm_90"]


@pytest.mark.parametrize(
    ("architectures", "capability", "runs"),
    [
        (WHEEL, (8, 0), True), (WHEEL, (8, 9), True), (WHEEL, (9, 0), True), (WHEEL, (7, 0), False),
        (WHEEL, (10, 0), False), ([*WHEEL, "compute_90"], (10, 0), True), ([*WHEEL, "compute_90"], (12, 0), True),
        (["sm_86"], (8, 0), False), (["compute_86"], (8, 0), False), (["sm_90a"], (9, 0), True),
        (["sm_90a", "compute_90a"], (10, 0), False), (["sm_100f"], (10, 3), True), (["sm_120"], (12, 1), True),
        (["sm_100"], (12, 0), False), ([], (9, 0), True),
    ],
)  # fmt: skip
def test_kernels_run_on_their_major_architecture_and_intermediate_code_on_what_is_newer(
    architectures, capability, runs
):
    assert kernels.covers(architectures, capability) == runs


def test_gpus_that_pytorch_cannot_use_end_the_run_instead_of_training_on_the_cpu(monkeypatch):
    with pytest.raises(UserError, match="has 8 GPUs, and PyTorch .* built without CUDA.*CUDA_VISIBLE_DEVICES="):
        kernels.require(torch.device("cpu"), 8)
    kernels.require(torch.device("cpu"), 0)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: WHEEL)
    assert "kernels for sm_75, sm_80, sm_86, sm_90; the GPU, NVIDIA B200, is sm_100," in kernels.sentence(
        "NVIDIA B200", (10, 0)
    )
