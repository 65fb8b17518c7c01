"""The rules of TPUs to the edge of each condition; vgp/check/test_check_tpus.py has the table of Google's pages."""

import pytest

from vgp.machines.catalog import tpu_machines as catalog
from vgp.machines.placement import tpu_rules

V5E, V7 = "ct5lp-hightpu-4t", "tpu7x-standard-4t"
BOARD = "cloud-tpu"


def list_codes(problems):
    return [(problem.rule, problem.severity) for problem in problems]


def in_region(machine=None, accelerator=None, count=0, where="us-west1", serving=False):
    return [problem.message for problem in tpu_rules.region(machine, accelerator, count, where=where, serving=serving)]


def test_an_unknown_region_is_left_to_another_rule():
    assert in_region(V5E, where="mars-east1") == [] == in_region(BOARD, "TPU_V3", 8, "mars-east1")


def test_predictions_and_training_have_regions_of_their_own():
    machine = catalog.machines()[V5E]
    trains, serves = (min(one - other) for one, other in (
        (machine.training_regions, machine.serving_regions), (machine.serving_regions, machine.training_regions),
    ))  # fmt: skip
    assert in_region(V5E, where=trains) == [] == in_region(V5E, where=serves, serving=True)
    assert in_region(V5E, where=serves) == [f"{serves} has no TPU v5e for training."]
    assert in_region(V5E, where=trains, serving=True) == [f"{trains} has no TPU v5e for predictions."]


def test_a_board_has_regions_where_it_trains_and_what_is_no_tpu_has_none():
    board = catalog.boards()["TPU_V3"]
    assert board.regions - board.pod_regions and "us-west1" not in board.regions
    assert in_region(BOARD, "TPU_V3", 8) == ["us-west1 has no TPU_V3 for training."]
    assert in_region(BOARD, "TPU_V3", board.single, min(board.regions - board.pod_regions)) == []
    assert in_region(BOARD, "TPU_V3", 32) == ["us-west1 has no TPU_V3 Pod for training."]
    assert in_region(BOARD, "TPU_V3", 8, serving=True) == []
    assert in_region("g2-standard-8", "NVIDIA_L4", 1) == [] == in_region()


@pytest.mark.parametrize(("topology", "pods"), [("2x2", 0), ("2x4", 1), ("9x9", 0), ("", 0), (None, 0)])
def test_only_a_slice_of_several_machines_is_a_pod(topology, pods):
    assert len(tpu_rules.spot(V5E, None, 0, topology)) == pods


def test_a_board_is_a_pod_above_its_own_cores():
    assert not tpu_rules.spot(BOARD, "TPU_V2", 8, "") and tpu_rules.spot(BOARD, "TPU_V2", 9, "")
    assert not tpu_rules.spot(BOARD, None, 32, "") and not tpu_rules.spot(None, None, 0, None)


@pytest.mark.parametrize(("count", "rule"), [(-1, "GPU005"), (0, "GPU005"), (1, "GPU003"), (7, "GPU003"), (8, None)])
def test_cores_that_are_missing_are_distinguished_from_those_that_are_wrong(count, rule):
    assert [problem.rule for problem in tpu_rules.plain("TPU_V2", count)] == ([rule] if rule else [])


def test_a_plain_step_has_the_boards_that_are_listed_for_it():
    assert list_codes(tpu_rules.plain("TPU_V5_LITEPOD", 8)) == [("GPU014", "warning")]


def test_the_chips_that_are_built_in_may_be_named():
    machine = catalog.machines()[V5E]
    assert machine.accelerator and machine.chips == 4
    named = [list_codes(tpu_rules.problems(V5E, machine.accelerator, count, "2x2")) for count in (3, 4, 5)]
    assert named == [[("GPU003", "warning")], [], [("GPU003", "warning")]]
    assert list_codes(tpu_rules.problems(V5E, None, 1, "2x2")) == [("GPU005", "warning")]
    assert list_codes(tpu_rules.problems(V5E, None, 0, "2x2")) == []


def test_a_topology_is_needed_where_it_trains_and_judged_where_it_is_known():
    assert list_codes(tpu_rules.problems(V5E, None, 0, None)) == []
    assert list_codes(tpu_rules.problems(V5E, None, 0, "")) == [("GPU032", "warning")]
    assert list_codes(tpu_rules.problems(V5E, None, 0, "", serving=True)) == []
    assert list_codes(tpu_rules.problems(V5E, None, 0, "3x3", serving=True)) == [("GPU032", "warning")]


def test_a_topology_of_other_machines_names_them_and_the_nearest_has_about_as_many_chips():
    (theirs,) = tpu_rules.problems(V5E, None, 0, "2x2x1")
    assert theirs.suggestion.endswith(f" 2x2x1 is a topology of {V7}.") and theirs.nearest == (("tpuTopology", "2x2"),)
    (nobodys,) = tpu_rules.problems(V5E, None, 0, "5x7")
    assert "is a topology of" not in nobodys.suggestion and nobodys.nearest == (("tpuTopology", "4x8"),)
    smallest = (("tpuTopology", "2x2"),)
    for none in ("2x4y", "axb", "1x1x1x1x9999", "9" * 5000):
        (problem,) = tpu_rules.problems(V5E, None, 0, none)
        assert problem.nearest == smallest, none


def test_a_topology_that_a_board_does_not_take_is_reported_with_the_right_one():
    assert list_codes(tpu_rules.problems(BOARD, None, 8, None)) == [("GPU006", "")]
    assert (
        list_codes(tpu_rules.problems(BOARD, "TPU_V2", 8, ""))
        == []
        == list_codes(tpu_rules.problems(BOARD, "TPU_V2", 8, None))
    )
    assert list_codes(tpu_rules.problems(BOARD, "TPU_V2", 8, "2x2")) == [("GPU032", "warning")]
    assert list_codes(tpu_rules.problems(BOARD, "TPU_V2", 8, "", serving=True)) == [("GPU001", "")]
