"""Which rank holds the others up."""

from types import SimpleNamespace

import torch

from vgp.train.loop import progress
from vgp.train.loop.progress import Pace, Stopwatch


def test_a_rank_that_stays_slower_than_the_median_is_named_once_until_it_recovers():
    pace = Pace(local_world_size=2, window_s=10)
    even, slow = [0.010, 0.011, 0.009, 0.010], [0.010, 0.011, 0.009, 0.030]
    said = [
        pace.add(own, whole_s=0.05, seconds=5) for own in (even, even, slow, slow, slow, slow, even, even, slow, slow)
    ]
    assert [bool(text) for text in said] == [False, False, False, True, False, False, False, False, False, True]
    assert said[3] == (
        "rank 3 (machine 1) holds the others up: for 10 s it has taken 30 ms to get a batch and run the forward pass; "
        "the median is 10 ms"
    )


def test_a_moment_and_what_costs_little_are_no_reason_and_of_two_ranks_one_is_named():
    moment = Pace(1, window_s=10)
    assert moment.add([0.01, 0.012], 0.05, 9.5) == moment.add([0.01, 0.05], 0.05, 0.5) == ""
    assert Pace(1, window_s=1).add([0.001, 0.002], 0.05, 1) == ""
    assert Pace(1, window_s=1).add([0.03, 0.01], 0.05, 1).startswith("rank 0 (machine 0) ")
    assert Pace(1, window_s=1).add([0.03], 0.05, 1) == ""


def test_the_stopwatch_counts_batch_and_forward_pass_of_a_microbatch_and_not_what_follows(monkeypatch):
    clock = SimpleNamespace(now=5.0)
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: clock.now))
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
