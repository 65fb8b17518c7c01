"""Machine x accelerator x count: accepted exactly where the catalog has the combination."""

from datetime import date, timedelta
from itertools import product

import pytest

from vgp.machines.catalog import catalog
from vgp.machines.placement import compatibility
from vgp.machines.placement.combination import combinations
from vgp.machines.placement.compatibility import problems

BEFORE_P100_ENDED = date(2026, 8, 20)
AFTER = date(2026, 11, 20)
PUBLISHED = {(row.machine_type, row.accelerator_type, row.count) for row in combinations()}


def errors(machine, accelerator, count, as_of=BEFORE_P100_ENDED):
    return [each for each in problems(machine, accelerator, count, as_of=as_of) if each.level == "error"]


def test_only_published_combinations_are_accepted():
    for machine, accelerator in product(catalog.machines().values(), catalog.accelerators()):
        for count in range(18) if accelerator in machine.choices else (1,):
            request = (machine.name, accelerator, count)
            assert (not errors(*request)) == (request in PUBLISHED), request


def test_a_machine_without_a_gpu_request_is_right_only_where_none_is_built_in():
    for name, machine in catalog.machines().items():
        assert bool(errors(name, None, 0)) == (machine.accelerator is not None), name
        assert errors(name, None, 1), name


@pytest.mark.parametrize(
    ("request_", "rule", "suggestion"),
    [
        (("n1-standard-8", "NVIDIA_TESLA_T4", 3), "GPU003", "4 x NVIDIA_TESLA_T4 on n1-standard-8 (us-central1, $"),
        (("n1-standard-4", "NVIDIA_H100_80GB", 8), "GPU004", "8 x NVIDIA_H100_80GB on a3-highgpu-8g"),
        (("n1-standard-32", "NVIDIA_TESLA_V100", 2), "GPU003", "2 x NVIDIA_TESLA_V100 on n1-standard-16"),
        (("a2-highgpu-2g", None, 0), "GPU006", "2 x NVIDIA_TESLA_A100 on a2-highgpu-2g"),
        (("n1-standard-16", "NVIDIA_TESLA_K80", 4), "GPU011", "4 x NVIDIA_TESLA_T4 on n1-standard-16"),
        (("n1-standard-32", "NVIDIA_TESLA_K80", 8), "GPU011", "8 x NVIDIA_L4 on g2-standard-96"),
        (("g2-standard-4", "NVIDIA_L4", 2), "GPU003", "2 x NVIDIA_L4 on g2-standard-24"),
        (("n1-standard-2", None, 0), "GPU001", "n1-standard-4"),
        (("h1000x8", None, 0), "GPU001", "a3-highgpu-8g"),
        (("g4-standard-6", "NVIDIA_RTX_PRO_6000", 1), "GPU001", "g4-standard-"),
        (("a3-highgpu-8g", "NVIDIA_H100", 8), "GPU002", "NVIDIA_H100_80GB"),
        (("n1-standard-8", "nvidia.com/gpu", 1), "GPU002", "NVIDIA_L4"),
    ],
)
def test_an_error_proposes_what_works(request_, rule, suggestion):
    found = errors(*request_, as_of=AFTER)
    assert [each.rule for each in found] == [rule]
    assert suggestion in found[0].suggestion


def test_p100_is_right_then_near_its_end_then_retired():
    request = ("n1-standard-8", "NVIDIA_TESLA_P100", 1)
    assert problems(*request, as_of=date(2026, 1, 1)) == []
    assert [each.level for each in problems(*request, as_of=date(2026, 8, 20))] == ["warning"]
    assert [each.level for each in problems(*request, as_of=date(2026, 9, 15))] == ["error"]


def test_without_a_machine_only_what_holds_for_all_is_judged():
    assert errors(None, "NVIDIA_L4", 3)[0].rule == "GPU003"
    assert not errors(None, "NVIDIA_L4", 4)


@pytest.mark.parametrize(
    ("machine", "accelerator", "words"),
    [
        ("a2-highgpu-1g", "NVIDIA_L4", ["1 x NVIDIA_TESLA_A100", "NVIDIA_L4"]),
        ("e2-standard-4", "NVIDIA_L4", ["no accelerator", "N1", "A2, A3, A4, G2"]),
        ("n1-standard-96", "NVIDIA_TESLA_P100", ["retired", "2026-09-15"]),
        ("n1-standard-8", "NVIDIA_L4", ["NVIDIA_TESLA_P4, NVIDIA_TESLA_T4, NVIDIA_TESLA_V100"]),
    ],
)
def test_each_reason_why_a_machine_does_not_take_a_gpu_names_what_it_takes(machine, accelerator, words):
    [problem] = compatibility.problems(machine, accelerator, 1, as_of=date(2026, 11, 20))
    assert all(word in problem.message for word in words)


def test_a_name_that_is_no_machine_is_reported_by_its_kind(monkeypatch):
    def message(name):
        return compatibility.unknown_machine(name).message

    assert message("  ") == "The machine type is empty."
    assert "'n9-standard-8'" in message("n9-standard-8")
    other = catalog.document("machines.json")["not_for_training"][0]
    assert message(other["machine_type"]) == f"{other['note']}."
    monkeypatch.setattr(catalog, "is_new", lambda name: name == "x9-ultragpu-8g")
    assert message("x9-ultragpu-8g").startswith("Compute Engine has x9-ultragpu-8g; the catalog does not know")


def test_an_end_of_support_is_a_warning_in_the_half_year_before_it():
    [gpu] = [each for each in catalog.accelerators().values() if each.name == "NVIDIA_TESLA_P100"]
    assert gpu.end_of_support

    def severities(days):
        day = gpu.end_of_support - timedelta(days=days)
        problems = compatibility.problems("n1-standard-8", gpu.name, 1, as_of=day)
        return [problem.severity for problem in problems if problem.rule == "GPU011"]

    assert severities(181) == [] and severities(180) == ["warning"] and severities(1) == ["warning"]
    [after] = compatibility.problems("n1-standard-8", gpu.name, 1, as_of=gpu.end_of_support)
    assert after.rule == "GPU011" and after.severity != "warning"


def test_what_no_name_is_near_to_names_every_gpu_that_lives():
    problem = compatibility.unknown_accelerator("zzzzzzzz", date(2026, 11, 20))
    assert "NVIDIA_L4" in problem.suggestion and "NVIDIA_TESLA_T4" in problem.suggestion
    assert "K80" not in problem.suggestion and "P100" not in problem.suggestion and "TPU" not in problem.suggestion


def test_names_that_the_catalog_lacks_are_reported_by_their_likely_kind():
    assert problems("ct5lp-hightpu-4t", None, 0, as_of=AFTER) == []
    assert problems("g2-standard-8", "ACCELERATOR_TYPE_UNSPECIFIED", 0, as_of=AFTER)[0].rule != "GPU002"
    [far] = problems("p4d.24xlarge", None, 0, as_of=AFTER)
    assert (far.rule, far.suggestion, far.nearest) == ("GPU001", "See `vgp machines`.", ())
    [near] = problems("n1-standrad-8", None, 0, as_of=AFTER)
    assert "n1-standard-8" in near.suggestion and near.nearest == (("machineType", "n1-standard-8"),)
    [kubernetes] = problems("n1-standard-8", "nvidia.com/gpu", 1, as_of=AFTER)
    assert "Kubernetes" in kubernetes.message
