"""What a run can cost at most, and the ceiling."""

import pytest
from rich.console import Console

from pipelines.errors import RequestError
from pipelines.machines import cost
from pipelines.machines.finding import StepRow


def row(step="train", usd=2.0, replicas=3, timeout_s=7200.0):
    return StepRow(step, "g2-standard-24", "NVIDIA_L4", 2, replicas, "SPOT", usd, "us-central1", timeout_s)


def test_the_most_is_timeout_times_machines_times_price():
    assert row().max_usd == 12.0
    assert cost.most_usd([row(), row(usd=1.0)]) == 18.0


@pytest.mark.parametrize("unknown", [{"usd": None}, {"replicas": None}, {"timeout_s": None}])
def test_what_is_not_known_has_no_bound_and_no_promise(unknown):
    assert row(**unknown).max_usd is None
    with pytest.raises(RequestError, match="cannot be promised.*train"):
        cost.refuse_above([row("prepare"), row(**unknown)], 1000)


def test_the_ceiling_is_the_last_that_passes():
    cost.refuse_above([row()], 12.0)
    cost.refuse_above([row(usd=None)], None)
    with pytest.raises(RequestError, match=r"can cost \$12.00, more than --max-usd 11.99"):
        cost.refuse_above([row()], 11.99)


def test_the_table_has_a_line_for_each_step_and_a_total():
    console = Console(record=True, width=200)
    console.print(cost.table([row(), row("tune", usd=None)]))
    text = console.export_text()
    assert "2 x NVIDIA_L4" in text and "us-central1" in text and "spot" in text
    assert "6.00" in text and "12.00" in text and "no price" in text and "total" in text


def test_on_a_narrow_terminal_no_name_is_broken_and_nothing_is_left_out():
    console = Console(record=True, width=80)
    console.print(cost.table([row(), row("prepare")], width=console.width))
    text = console.export_text()
    assert "g2-standard-24" in text and "2 x NVIDIA_L4" in text and "total" in text
    assert "every step: us-central1, spot" in text


def test_what_differs_between_steps_keeps_its_column():
    console = Console(record=True, width=80)
    elsewhere = StepRow("tune", "g2-standard-24", "NVIDIA_L4", 2, 1, "STANDARD", 2.0, "us-central1", 60.0)
    console.print(cost.table([row(), elsewhere], width=console.width))
    text = console.export_text()
    assert "provisioning" in text and "spot" in text and "standard" in text and "every step: us-central1" in text


def test_a_table_without_steps_can_be_drawn():
    console = Console(record=True, width=80)
    console.print(cost.table([], width=console.width))
    assert "machine" in console.export_text()
