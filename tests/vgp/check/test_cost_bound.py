"""What a run can cost at most, and the ceiling."""

from dataclasses import replace
from datetime import date

import pytest
from rich.console import Console

from vgp.base.documents.document import Document
from vgp.base.errors import RequestError
from vgp.check import cost_bound
from vgp.check.check_finding import StepRow
from vgp.check.checker import check
from vgp.check.container_facts import Service
from vgp.machines.catalog import prices
from vgp.machines.catalog.prices import Price
from vgp.machines.placement import plain
from vgp.machines.placement.combination import Combination


def row(step="train", usd=2.0, replicas=3, timeout_s=7200.0, tries=1, turns=1, machine="g2-standard-24"):
    return StepRow(
        step, machine, "NVIDIA_L4", 2, replicas, "SPOT", usd, "us-central1", timeout_s, tries=tries, turns=turns
    )


def test_the_most_is_timeout_times_machines_times_price():
    assert row().max_usd == 12.0
    assert cost_bound.most_usd([row(), row(usd=1.0)]) == 18.0


@pytest.mark.parametrize(
    ("unknown", "why"),
    [
        ({"usd": None}, "no price of 2 x NVIDIA_L4 on g2-standard-24 in us-central1, spot"),
        ({"replicas": None}, "its number of machines is not known"), ({"timeout_s": None}, "its timeout is not"),
        ({"tries": None}, "its number of attempts is not known"),
        ({"turns": None}, "the number of iterations of its loop is not"),
        ({"machine": None, "usd": None}, "its machine is not known"),
    ],
)  # fmt: skip
def test_what_is_not_known_has_no_bound_and_no_promise(unknown, why):
    assert row(**unknown).max_usd is None and why in row(**unknown).unknown_reason
    with pytest.raises(RequestError, match=r"cannot be guaranteed.*train \(") as refused:
        cost_bound.refuse_above([row("prepare"), row(**unknown)], 1000)
    assert why in str(refused.value) and "$12.00" in str(refused.value)


def test_a_known_excess_comes_before_the_steps_without_a_price():
    with pytest.raises(RequestError, match=r"at least \$12.00, more than --max-usd 5") as refused:
        cost_bound.refuse_above([row("prepare"), row(usd=None)], 5)
    assert "Not included: train (no price" in str(refused.value)


@pytest.mark.parametrize("limit", [float("nan"), float("inf"), -1.0])
def test_a_limit_that_is_no_amount_is_refused(limit):
    with pytest.raises(RequestError, match="give dollars"):
        cost_bound.refuse_above([row()], limit)


def test_tries_and_turns_count():
    assert row(tries=2, turns=5).max_usd == 120.0
    assert row(tries=2, turns=5).max_usd_a_turn == 24.0
    with pytest.raises(RequestError, match="for up to 2 h, 10 times, "):
        cost_bound.refuse_above([row(tries=2, turns=5)], 100)


def test_json_has_a_bound_or_the_steps_without_one():
    assert cost_bound.as_json([row()]) == {
        "max_usd": 12.0, "max_usd_of_priced_steps": 12.0, "unpriced": {}, "price_dates": [row().price_date],
        "not_counted": ["boot disks of train"],
    }  # fmt: skip
    partly = cost_bound.as_json([row("prepare"), row(usd=None)])
    assert (partly["max_usd"], partly["max_usd_of_priced_steps"]) == (None, 12.0) and "train" in partly["unpriced"]


def drawn(rows, width=200):
    console = Console(record=True, width=width)
    console.print(cost_bound.steps_table(rows, width=width))
    return console.export_text()


@pytest.mark.parametrize("width", [80, 200])
def test_a_total_without_all_prices_is_at_least_and_names_what_is_left_out(width):
    text = drawn([row(), row("tune", usd=None), row("sweep", turns=None)], width)
    assert "at least 12.00" in " ".join(text.split())
    below = " ".join(text.split("not included:")[1].split())
    assert below.startswith(
        "tune (no price of 2 x NVIDIA_L4 on g2-standard-24 in us-central1, spot), sweep (the number of iterations"
    )
    assert "at least" not in drawn([row(), row("tune")]) and "tune (no price" not in drawn([row(), row("tune")])
    assert "not known" in drawn([row(usd=None), row("tune", usd=None)])


def test_the_ceiling_is_the_last_that_passes():
    cost_bound.refuse_above([row()], 12.0)
    cost_bound.refuse_above([row(usd=None)], None)
    with pytest.raises(RequestError, match=r"can cost \$12.00, more than --max-usd 11.99"):
        cost_bound.refuse_above([row()], 11.99)


def test_the_table_has_a_line_for_each_step_and_a_total():
    console = Console(record=True, width=200)
    console.print(cost_bound.steps_table([row(), row("tune", usd=None)]))
    text = console.export_text()
    assert "2 x NVIDIA_L4" in text and "us-central1" in text and "spot" in text
    assert "6.00" in text and "12.00" in text and "no price" in text and "total" in text


def test_on_a_narrow_terminal_no_name_is_broken_and_nothing_is_left_out():
    console = Console(record=True, width=80)
    console.print(cost_bound.steps_table([row(), row("prepare")], width=console.width))
    text = console.export_text()
    assert "g2-standard-24" in text and "2 x NVIDIA_L4" in text and "total" in text
    assert "every step: us-central1, spot" in text


def test_what_differs_between_steps_keeps_its_column():
    console = Console(record=True, width=80)
    elsewhere = StepRow("tune", "g2-standard-24", "NVIDIA_L4", 2, 1, "STANDARD", 2.0, "us-central1", 60.0)
    console.print(cost_bound.steps_table([row(), elsewhere], width=console.width))
    text = console.export_text()
    assert "provisioning" in text and "spot" in text and "standard" in text and "every step: us-central1" in text


def test_a_table_without_steps_can_be_drawn():
    console = Console(record=True, width=80)
    console.print(cost_bound.steps_table([], width=console.width))
    assert "machine" in console.export_text()


def test_the_table_dates_its_prices_and_warns_when_they_are_old(monkeypatch):
    days = {"g2-standard-24": "2026-07-30", "n1-standard-8": "2026-07-09"}
    monkeypatch.setattr(Combination, "price", lambda it, way, where: Price(2.0, where, way, days[it.machine_type]))
    t4 = StepRow("tune", "n1-standard-8", "NVIDIA_TESLA_T4", 1, 1, "STANDARD", 0.8, "europe-west4", 60.0)
    used = Service("BigQuery", "500 GB", "US", 3.1)
    rows = [row(), t4, row("big", usd=None), replace(row("read"), services=(used,))]
    assert cost_bound.price_dates(rows) == ["2026-07-09", "2026-07-30", "2026-09-18"]

    def below(today):
        console = Console(record=True, width=200)
        console.print(cost_bound.steps_table(rows, width=200, today=today))
        return console.export_text()

    fresh = below(date(2026, 9, 1)).splitlines()
    assert fresh[-1].strip() == "prices of 2026-07-09 to 2026-09-18"
    assert "up to 61 days old; refresh:" in below(date(2026, 9, 8))
    assert "prices of" not in drawn([row(usd=None)])
    assert t4.as_json()["price_date"] == "2026-07-09" and row(usd=None).as_json()["price_date"] is None


def test_the_line_of_a_step_counts_attempts_and_iterations_or_marks_them_unknown():
    line = cost_bound.build_line(row(tries=2, turns=5))
    assert (line["GPUs"], line["nodes"], line["$/hour"], line["at most"]) == ("2 x NVIDIA_L4", "3", "6.00", "120.00")
    unpriced, unknown = cost_bound.build_line(row(usd=None)), cost_bound.build_line(row(replicas=None))
    assert (unpriced["$/hour"], unpriced["at most"]) == ("no price", "no price")
    assert (unknown["nodes"], unknown["$/hour"], unknown["at most"]) == ("?", "?", "?")
    for times in ({"tries": None}, {"turns": None}):
        assert (cost_bound.build_line(row(**times))["$/hour"], cost_bound.build_line(row(**times))["at most"]) == (
            "6.00",
            "?",
        )


@pytest.mark.parametrize(
    ("usd", "times", "most"),
    [(3.0, {"tries": 2, "turns": 5}, "30.00"), (None, {}, "no price"), (3.0, {"tries": None}, "?")],
)
def test_a_service_of_a_step_has_a_line_of_its_own_with_what_all_tries_can_cost(usd, times, most):
    text = drawn([replace(row(**times), services=(Service("Dataflow", "10 workers", "us-east4", usd),))])
    [line] = [each for each in text.splitlines() if "Dataflow: 10 workers" in each]
    assert "us-east4" in line and line.rstrip().endswith(most)
    assert "for each GB that Dataflow shuffles (train)" in text and "\ntotal" not in text
    assert "shuffles" not in drawn([replace(row(), services=(Service("BigQuery", "a", "US", usd),))])


@pytest.mark.parametrize(("width", "every"), [(99, True), (100, False)])
def test_the_table_is_narrow_below_a_hundred_columns(width, every):
    assert ("every step: us-central1, spot" in drawn([row(), row("tune")], width)) == every


def test_a_limit_of_nothing_refuses_what_costs_and_names_the_dearest_step():
    with pytest.raises(RequestError, match=r"more than --max-usd 0\.\n") as refused:
        cost_bound.refuse_above([row("prepare", usd=1.0), row()], 0)
    assert all(part in str(refused.value) for part in ("train, 3 x g2-standard-24", "2 h", "$12.00"))
    cost_bound.refuse_above([], 0)


def test_a_step_that_runs_twice_shows_its_count():
    for times, said in ((2, ", 2 times, "), (1, "for up to 2 h, ")):
        with pytest.raises(RequestError, match=said):
            cost_bound.refuse_above([row(turns=times)], 1)


@pytest.mark.parametrize("dated", [True, False])
def test_several_tables_date_their_prices_once(dated):
    console = Console(record=True, width=200)
    console.print(cost_bound.steps_table([row()], dated=dated))
    assert ("prices of" in console.export_text()) == dated


def test_boot_disks_and_the_launcher_are_part_of_the_most():
    disk = prices.boot_disk("pd-ssd", 100, "us-central1").usd_per_hour
    with_disks = replace(row(tries=2), boot_disk=("pd-ssd", 100))
    assert with_disks.max_usd == pytest.approx(24.0 + 2 * 2 * 3 * disk)
    launched = replace(with_disks, launcher_region="us-central1")
    launcher = plain.default().price("standard", "us-central1").usd_per_hour + disk
    assert launched.max_usd == pytest.approx(with_disks.max_usd + 2 * 2 * launcher)
    [line] = [line for line in drawn([launched]).splitlines() if "launcher " in line and "e2-standard-4" in line]
    assert line.rstrip().endswith(f"{2 * 2 * launcher:.2f}")
    with pytest.raises(RequestError, match="more than --max-usd 24"):
        cost_bound.refuse_above([with_disks], 24.0)
    assert (launched.as_json()["boot_disk"]["gb"], cost_bound.price_dates([launched])[0]) == (100, "2026-04-30")


def test_a_larger_disk_costs_more_and_all_pools_have_one():
    def most(**disk):
        pools = [{"machineSpec": {"machineType": "n1-standard-8"}, "replicaCount": count, **disk} for count in (1, 3)]
        job = {"jobSpec": {"workerPoolSpecs": pools, "scheduling": {"timeout": "3600s"}}}
        return check([Document("job", job, "")], regions=["us-central1"]).steps

    (plain_row,), (large,) = most(), most(diskSpec={"bootDiskType": "pd-ssd", "bootDiskSizeGb": 500})
    assert (plain_row.boot_disk, large.boot_disk, large.replicas) == (("pd-ssd", 100), ("pd-ssd", 500), 4)
    assert large.max_usd - plain_row.max_usd == pytest.approx(
        4 * prices.boot_disk("pd-ssd", 400, "us-central1").usd_per_hour
    )
    assert cost_bound.list_uncounted_items(most(diskSpec={"bootDiskType": "{{$.inputs.parameters['disk']}}"})) == [
        "boot disks of job"
    ]


def test_what_is_billed_and_not_counted_is_named():
    tune = replace(row("tune"), launcher_region="nowhere-1")
    text = drawn([replace(row("prepare"), boot_disk=("pd-ssd", 100)), replace(row(), launcher_region="us-east1"), tune])
    assert "boot disks of train and tune" in text
    assert "the e2-standard-4 of Google's launcher for tune" in text
    assert "the launcher's cost while waiting for the machines of train" in text
    assert "not included" not in drawn([replace(row(), boot_disk=("pd-ssd", 100))])


def test_the_advice_for_a_step_that_nothing_ends_is_one_that_counts():
    with pytest.raises(RequestError, match="set one in its command, timeout -k 60 4h PROGRAM, or raise --max-usd"):
        cost_bound.refuse_above([replace(row(timeout_s=604_800), is_endless=True)], 20)
