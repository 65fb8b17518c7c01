import math

import numpy as np
import pytest

from vgp.base.exits import UserError
from vgp.data.task import Task
from vgp.train.config import parse
from vgp.train.loop.schedule import Schedule

STEPS = 100


class Plain(Task):
    def shards(self, data): ...

    def rows(self, shard, statistics): ...

    def model(self, data): ...

    def loss(self, model, batch): ...


class Stairs(Plain):
    """Half as much in the second half."""

    def learning_rate(self, step, steps):
        return 1 if step < steps / 2 else np.float32(0.5)


def factors(task=None, steps=STEPS, **changes):
    schedule = Schedule(parse(changes), steps, task or Plain())
    schedule.check()
    return [schedule.factor(step) for step in range(steps)]


@pytest.mark.parametrize(
    "schedule", ["auto", "cosine", "linear", "constant", "warmup_stable_decay", "inverse_sqrt"]
)  # fmt: skip
def test_every_schedule_rises_to_its_peak_and_stays_above_zero_from_then_on(schedule):
    found = factors(schedule=schedule, warmup_fraction=0.1)
    assert found[:10] == [pytest.approx((step + 1) / 11) for step in range(10)]
    assert found[10] == max(found) == 1
    assert all(0 < after <= before for before, after in zip(found[10:], found[11:], strict=False))
    assert factors(schedule=schedule, steps=1, warmup_fraction=0) == [1]


def test_the_cosine_is_the_default_and_ends_near_zero():
    found = factors()
    assert found[52] == pytest.approx(0.5 * (1 + math.cos(math.pi * 47 / 95))) and found[-1] < 0.001
    assert found == factors(schedule="cosine")


@pytest.mark.parametrize("schedule", ["cosine", "linear", "warmup_stable_decay"])
def test_a_schedule_that_falls_ends_at_the_final_fraction(schedule):
    found = factors(schedule=schedule, final_lr_fraction=0.1, steps=10_000)
    assert 0.1 < found[-1] < 0.102


def test_warmup_stable_decay_falls_in_its_last_share_only():
    found = factors(schedule="warmup_stable_decay", warmup_fraction=0.1, decay_fraction=0.3)
    assert set(found[10:71]) == {1.0} and found[71] < 1
    assert found[85] == pytest.approx(0.5) and found[99] == pytest.approx(1 / 30)


def test_the_inverse_root_is_that_of_the_steps():
    found = factors(schedule="inverse_sqrt", warmup_fraction=0.1)
    assert found[43] == pytest.approx(math.sqrt(11 / 44))


def test_a_tasks_own_schedule_is_taken_after_the_same_warm_up_unless_a_setting_names_another():
    found = factors(Stairs(), warmup_fraction=0.1)
    assert found[4] == pytest.approx(5 / 11) and found[49:51] == [1.0, 0.5]
    assert all(type(factor) is float for factor in found)
    assert factors(Stairs(), schedule="cosine") == factors()


@pytest.mark.parametrize("value", [math.nan, math.inf, -0.1, None, "1", True, np.array([1.0]), 1j])
def test_what_a_task_gives_that_is_no_factor_is_named_with_its_step(value):
    class Own(Plain):
        def learning_rate(self, step, steps):
            return value if step == 50 else 1.0

    with pytest.raises(
        UserError, match=r"learning_rate of Own gives .* for step 50 of 101: it must be a finite number"
    ):
        factors(Own(), steps=101)


def test_a_schedule_that_counts_its_calls_is_refused():
    class Counting(Plain):
        calls = 0

        def learning_rate(self, step, steps):
            self.calls += 1
            return 1 / self.calls

    with pytest.raises(UserError, match="it must depend on the step alone, or a resumed run would differ"):
        factors(Counting())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": "step"}, "schedule='step': input should be 'auto', 'cosine'"),
        ({"schedule": "constant", "final_lr_fraction": 0.1}, "final_lr_fraction=0.1 does nothing with schedule=consta"),
        ({"decay_fraction": 0.1}, "decay_fraction=0.1 works with schedule=warmup_stable_decay only"),
        ({"schedule": "warmup_stable_decay", "warmup_fraction": 0.5, "decay_fraction": 0.6}, "more than all steps"),
        ({"final_lr_fraction": 1.5}, "final_lr_fraction=1.5: input should be less than or equal to 1"),
    ],
)
def test_settings_of_a_schedule_that_do_nothing_are_refused(given, message):
    with pytest.raises(UserError, match=message):
        parse(given)


def test_a_final_fraction_does_nothing_to_a_tasks_own_schedule_and_is_refused():
    with pytest.raises(UserError, match=r"final_lr_fraction=0.1 does nothing with the schedule of Stairs itself"):
        factors(Stairs(), final_lr_fraction=0.1)
