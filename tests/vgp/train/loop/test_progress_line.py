"""The progress line, the use of GPUs, and the rank that holds the others up."""

from types import SimpleNamespace

import pytest
import torch

from vgp.base.gpu_peaks import peak_flops
from vgp.networks.shape import Workload
from vgp.train.loop import progress_line
from vgp.train.loop.progress_line import PaceMonitor, Progress, Stopwatch, throughput


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


def test_a_rank_that_stays_slower_than_the_median_is_named_once_until_it_recovers():
    pace = PaceMonitor(local_world_size=2, window_s=10)
    even, slow = [0.010, 0.011, 0.009, 0.010], [0.010, 0.011, 0.009, 0.030]
    said = [
        pace.add(own, whole_s=0.05, seconds=5) for own in (even, even, slow, slow, slow, slow, even, even, slow, slow)
    ]
    assert [bool(text) for text in said] == [False, False, False, True, False, False, False, False, False, True]
    assert all(fact in said[3] for fact in ("rank 3 (machine 1)", "10 s", "30 ms", "10 ms"))


def test_a_moment_and_what_costs_little_are_no_reason_and_of_two_ranks_one_is_named():
    moment = PaceMonitor(1, window_s=10)
    assert moment.add([0.01, 0.012], 0.05, 9.5) == moment.add([0.01, 0.05], 0.05, 0.5) == ""
    assert PaceMonitor(1, window_s=1).add([0.001, 0.002], 0.05, 1) == ""
    assert PaceMonitor(1, window_s=1).add([0.03, 0.01], 0.05, 1).startswith("rank 0 (machine 0) ")
    assert PaceMonitor(1, window_s=1).add([0.03], 0.05, 1) == ""


def test_the_stopwatch_counts_batch_and_forward_pass_of_a_microbatch_and_not_what_follows(monkeypatch):
    clock = SimpleNamespace(now=5.0)
    monkeypatch.setattr(progress_line, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    watch = Stopwatch(torch.device("cpu"))
    for _ in range(2):
        watch.begin()
        clock.now += 0.25
        watch.has_batch()
        clock.now += 0.5
        watch.has_loss()
        clock.now += 8.0
    assert watch.take() == 0.75
    assert watch.take() == 0


class Event:
    """What the host sees of an event on a GPU that has computed up to `Event.now`; waiting is an error."""

    now = 0.0

    def __init__(self, enable_timing):
        self.time = 0.0

    def record(self):
        self.time = Event.now + 5  # the host is five seconds ahead

    def query(self):
        return Event.now >= self.time

    def elapsed_time(self, other):
        assert other.query()
        return (other.time - self.time) * 1000


def test_on_a_gpu_the_stopwatch_never_waits_for_the_device(monkeypatch):
    """It has the last pass that the device has ended, and does not record another one before."""
    monkeypatch.setattr(torch.cuda, "Event", Event)
    clock = SimpleNamespace(now=5.0)
    monkeypatch.setattr(progress_line, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    watch, taken = Stopwatch(torch.device("cuda")), []
    for forward_s in (1, 2, 3, 4):
        watch.begin()
        clock.now += 0.5
        watch.has_batch()
        Event.now += forward_s
        watch.has_loss()
        taken.append(watch.take())
    assert taken == [0.5, 0.5, 1.5, 1.5]
