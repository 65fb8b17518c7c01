"""Machines that the GPU hour refuses, each with its reason and a fix."""

import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.gpu_hour import machine
from tools.gpu_hour.machine import GIB, Gpu, Refused
from tools.gpu_hour.saving import choose_depth

SCRIPT = Path(__file__).parents[3] / "scripts/gpu_hour.sh"
H100 = Gpu("NVIDIA H100 80GB HBM3", "GPU-1234", (9, 0), 80 * GIB, 0.6 * GIB, 0)
WHEEL = ["sm_80", "sm_90"]


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPT, *arguments], env={**os.environ, "PYTHON": sys.executable, **variables}, capture_output=True, text=True
    )


def test_an_idle_gpu_with_kernels_is_accepted() -> None:
    machine.require_gpus([H100, replace(H100, capability=(8, 0), use_percent=math.nan)], WHEEL)


@pytest.mark.parametrize(
    ("gpu", "words"),
    [
        (replace(H100, capability=(12, 0)), ["sm_120", "sm_80, sm_90"]),
        (replace(H100, used_bytes=30 * GIB), ["30.0 GiB are taken", "CUDA_VISIBLE_DEVICES"]),
        (replace(H100, use_percent=97), ["97 % busy", "nvidia-smi"]),
        (replace(H100, name="NVIDIA A100 MIG 1g.5gb"), ["MIG slice", "whole GPU"]),
        (replace(H100, uuid="MIG-77"), ["MIG slice"]),
    ],
)
def test_a_gpu_that_would_give_wrong_figures_is_refused_by_its_number(gpu: Gpu, words: list[str]) -> None:
    with pytest.raises(Refused, match="GPU 1") as refusal:
        machine.require_gpus([H100, gpu], WHEEL)
    assert all(word in str(refusal.value) for word in words)


def test_a_machine_without_a_gpu_is_refused_before_any_work(tmp_path: Path) -> None:
    ended = run("--out", str(tmp_path / "out"), CUDA_VISIBLE_DEVICES="")
    assert ended.returncode == 2 and "sees no GPU" in ended.stderr and "--on-cpu" in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("gib", "fitting"), [(80, None), (40, None), (22, 20), (10, 12), (5, 8)])
def test_too_little_memory_names_the_size_that_fits(gib: int, fitting: int | None) -> None:
    if fitting is None:
        return machine.require_memory(2, 26, gib * GIB)
    with pytest.raises(Refused, match=f"GPU has \\({gib} GiB\\)") as refusal:
        machine.require_memory(2, 26, gib * GIB)
    assert f"--largest {fitting}." in str(refusal.value)
    machine.require_memory(2, fitting, gib * GIB)
    machine.require_memory(1, 26, gib * GIB)


def test_no_model_fits_a_tiny_gpu() -> None:
    with pytest.raises(Refused, match="larger GPU"):
        machine.require_memory(3, 26, 2 * GIB)


@pytest.mark.parametrize(("gib", "depth"), [(60, 26), (40, 20), (10, 12), (4, 8)])
def test_checkpoints_are_of_the_largest_model_that_fits_the_disk(gib: int, depth: int) -> None:
    assert choose_depth(26, gib * GIB) == depth
    assert choose_depth(12, gib * GIB) == min(depth, 12)


def test_a_disk_without_room_for_any_checkpoint_is_refused() -> None:
    with pytest.raises(Refused, match="1.0 GiB of disk are free.*TMPDIR"):
        choose_depth(26, GIB)


def test_a_python_that_does_not_exist_or_has_no_pytorch_is_named(tmp_path: Path) -> None:
    absent = run(PYTHON=str(tmp_path / "python"))
    assert absent.returncode == 2 and f"no {tmp_path}/python" in absent.stderr
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    ended = run("--on-cpu", PYTHON=str(bare))
    assert ended.returncode == 2 and "has no PyTorch" in ended.stderr


def test_a_python_that_is_too_old_is_named(tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.10.4" && exit\nexit 1\n')
    old.chmod(0o755)
    ended = run("--on-cpu", PYTHON=str(old))
    assert ended.returncode == 2 and "Python 3.10.4 is too old" in ended.stderr


def test_a_pytorch_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.importlib.metadata, "version", lambda name: "2.10.1+cu128")
    with pytest.raises(Refused, match="2.10.1.*2.11 or newer"):
        machine.require_torch()
