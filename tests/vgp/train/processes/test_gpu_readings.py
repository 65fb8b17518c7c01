"""Whether PyTorch can use this machine's GPU, and its figures, from a library of our own in place of NVIDIA's."""

import math
import shutil
import subprocess

import pytest
import torch

from vgp.base.exits import UserError
from vgp.train.loop.progress_line import Progress
from vgp.train.processes import gpu_readings
from vgp.train.processes.gpu_readings import Gpu, Reading, format_gpus, gpu_scalars

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
    assert gpu_readings.supports_capability(architectures, capability) == runs


def test_gpus_that_pytorch_cannot_use_end_the_run_instead_of_training_on_the_cpu(monkeypatch):
    with pytest.raises(UserError, match="has 8 GPUs, and PyTorch .* built without CUDA.*CUDA_VISIBLE_DEVICES="):
        gpu_readings.require_usable(torch.device("cpu"), 8)
    gpu_readings.require_usable(torch.device("cpu"), 0)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: WHEEL)
    assert (
        "kernels for sm_75, sm_80, sm_86, sm_90; the GPU, NVIDIA B200, is sm_100,"
        in gpu_readings.unsupported_message("NVIDIA B200", (10, 0))
    )


LIBRARY = r"""
#include <string.h>
typedef struct { unsigned gpu, memory; } use; typedef struct { unsigned long long total, free, used; } bytes;
static int device; static int started;
int nvmlInit_v2(void) { started = 1; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle)
{ if (!started || strcmp(uuid, "GPU-1234")) return 6; *handle = &device; return 0; }
int nvmlDeviceGetUtilizationRates(void *handle, use *u) { if (handle != &device) return 2; u->gpu = 93; return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, bytes *m)
{ if (handle != &device) return 2; m->total = 80ull << 30; m->used = 60ull << 30; return 0; }
#ifdef WARM
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *t)
{ if (handle != &device || sensor) return 2; *t = 64; return 0; }
#else
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *t) { return 3; }
#endif
"""


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
@pytest.mark.parametrize(("flags", "celsius"), [(["-DWARM"], 64), ([], math.nan)])
def test_use_memory_and_temperature_are_read_and_what_the_driver_does_not_tell_is_left_out(tmp_path, flags, celsius):
    library = str(tmp_path / "libnvidia-ml.so.1")
    source = tmp_path / "nvml.c"
    source.write_text(LIBRARY)
    subprocess.run(["gcc", "-shared", "-fPIC", *flags, "-o", library, str(source)], check=True)
    reading = Gpu("1234", library).read()
    assert (reading.use, reading.memory_bytes, reading.memory_total_bytes) == (93, 60 << 30, 80 << 30)
    assert reading.celsius == celsius or math.isnan(celsius) and math.isnan(reading.celsius)
    warm = {"gpu/celsius": 64} if flags else {}
    assert gpu_scalars([reading]) == {"gpu/use_percent": 93, "gpu/least_use_percent": 93, "gpu/memory_gib": 60} | warm
    assert format_gpus([Gpu("9999", library).read()]) == ""


def test_the_line_and_the_curves_are_of_all_gpus_and_silent_without_one(capsys):
    two = [Reading(90, 10 << 30, 80 << 30, 50), Reading(60, 60 << 30, 80 << 30, 70)]
    assert format_gpus(two) == "GPU 75% 60.0/80.0 GiB 70 C"
    assert gpu_scalars(two)["gpu/least_use_percent"] == 60
    progress = Progress(10, 0, 32, terminal=False)
    for readings in (two, [Gpu("1234", "libno-such.so").read()]):
        progress.gpus = readings
        progress.show(10, 1.0, epoch=1, done=True)
    with_gpus, without = capsys.readouterr().err.splitlines()
    assert " samples/s  GPU 75% 60.0/80.0 GiB 70 C  0:00 left" in with_gpus and "GPU" not in without
    assert gpu_scalars(progress.gpus) == {}
