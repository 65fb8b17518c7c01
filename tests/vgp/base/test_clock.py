"""The launcher's time passes steadily, even when the clock of its machine is set."""

import time

import pytest

from vgp.base.clock import Clock


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_a_clock_that_is_set_moves_no_time(monkeypatch: pytest.MonkeyPatch, jump_s: float) -> None:
    clock, real = Clock(), time.time
    before = clock.now()
    assert abs(before - real()) < 60
    monkeypatch.setattr(time, "time", lambda: real() + jump_s)
    assert 0 <= clock.now() - before < 60
    assert abs(Clock().now() - (real() + jump_s)) < 60, "a launcher that begins then has no other"
