import pytest

from vgp.networks.workload import Workload
from vgp.train.loop.progress import Progress, peak_flops, throughput


def test_the_longest_fitting_name_of_a_gpu_decides_its_peak():
    names = {
        "NVIDIA H100 80GB HBM3": 989.5,
        "NVIDIA H200": 989.5, "NVIDIA H200 NVL": 835.5, "NVIDIA H100 PCIe": 756.5,
        "NVIDIA L4": 121.0, "NVIDIA L40S": 362.0,
        "NVIDIA L40": 181.0, "NVIDIA A100-SXM4-80GB": 312.0, "NVIDIA B200": 2250.0, "NVIDIA GB200": 2500.0,
        "NVIDIA B300 SXM6 AC": 2250.0, "NVIDIA GB300": 2500.0,
        "Tesla V100-SXM2-16GB": 125.0, "Tesla V100-PCIE-32GB": 112.0, "Tesla V100S-PCIE-32GB": 130.0, "Tesla T4": 65.0,
    }  # fmt: skip
    assert {name: peak_flops(name) for name in names} == {n: pytest.approx(p * 1e12) for n, p in names.items()}
    assert peak_flops("cpu (2 cores)") is None and peak_flops("Tesla P100-PCIE-16GB") is None


def test_throughput_is_in_the_tasks_unit_and_use_is_of_all_gpus():
    work = Workload("tokens", 1024, 1e12)
    found = throughput(work, 98.95, "NVIDIA H100 80GB HBM3", 2)
    assert found == {"tokens_per_s": pytest.approx(101_324.8), "mfu": 0.05}
    assert throughput(work, 10, "cpu", 2) == {"tokens_per_s": 10_240}
    assert throughput(Workload(), 10, "NVIDIA L4", 1) == {}


@pytest.mark.parametrize(
    ("work", "device", "shown"),
    [
        (Workload(), "NVIDIA L4", " samples/s  0:00 left"),
        (Workload("tokens", 256, 1e9), "cpu", " tokens/s  MFU n/a  "),
        (Workload("tokens", 256, 1e9), "NVIDIA L4", "%  0:00 left"),
    ],
)
def test_the_progress_line_shows_the_use_of_gpus_where_it_is_known(capsys, work, device, shown):
    Progress(10, 0, 32, terminal=False, workload=work, device=device).show(10, 1.0, epoch=1, done=True)
    line = capsys.readouterr().err
    assert shown in line and ("MFU" in line) == bool(work.flops_per_row)


def test_the_last_line_of_a_run_that_stops_early_tells_no_time_left_and_stays(capsys):
    Progress(10, 0, 32, terminal=True).show(4, 1.0, epoch=0.4, stopped=True)
    line = capsys.readouterr().err
    assert "step 4/10" in line and line.endswith("samples/s  stopped\n") and "left" not in line
