"""What the microbatches of a step leave in the model's buffers becomes one value, for every number of processes."""

from pathlib import Path

import pytest
import torch
from torch import nn

from vgp.base.exits import UserError
from vgp.train.loop.attributes import keep_attributes
from vgp.train.loop.buffers import combine_values, find_changed, is_same, keep_buffers
from vgp.train.processes.launch import launch

RULES = {"counts": "sum", "total": "sum", "average": "mean", "latest": "last", "steps": "last", "seen": "last",
         "late_*": "sum"}  # fmt: skip
STEPS, ROWS = 10, 32
FEW = {name: rule for name, rule in RULES.items() if name != "late_*"}
TRIALS = {
    "exact": {"exact": True},
    "ddp": {},
    "fsdp": {"strategy": "fsdp"},
    "late": {"rules": FEW},
    "resumed": {"rules": FEW, "resumed": True},
    "always": {"way": "always"},
    "no rules": {"rules": {}},
    "no such buffer": {"rules": {"count": "sum"}},
    "mean of whole numbers": {"rules": {**RULES, "counts": "mean"}},
    "not saved": {"way": "unsaved"},
    "apart": {"way": "apart"},
    "batch norm": {"way": "plain", "rules": {}},
    "first rows": {"way": "starts"},
}


@pytest.fixture(scope="module")
def launched():
    """By number of processes: how often each label occurs, by step, and what each process has of each trial."""
    trials = [{"rules": RULES, **trial} for trial in TRIALS.values()]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[3] / "helpers"))
        return {size: launch("counting:trials", trials, nproc=size) for size in (1, 2, 4)}


@pytest.fixture(scope="module")
def results(launched):
    return {size: dict(zip(TRIALS, found["trials"], strict=True)) for size, found in launched.items()}


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("way", ["exact", "ddp", "fsdp"])
def test_every_rule_gives_the_model_of_the_whole_batch(launched, results, size, way):
    by_step = launched[1]["labels"]
    first, *others = results[size][way]
    assert not isinstance(first, str), first
    assert all(other == first for other in others)
    assert first["counts"] == [sum(step[label] for step in by_step) for label in range(3)]
    assert first["late_counts"] == [sum(step[label] for step in by_step[5:]) for label in range(3)]
    assert first["total"] == STEPS * ROWS and first["steps"] == STEPS
    assert first["seen"] == [True, True, True] and first["norm.num_batches_tracked"] == STEPS
    assert first["is_set"] == 1 and first["scale"] != [1, 1, 1, 1]
    assert first["average"] == pytest.approx(results[1]["ddp"][0]["average"], rel=1e-4)
    assert first["latest"] == results[1]["ddp"][0]["latest"]


@pytest.mark.parametrize("way", ["exact", "always"])
def test_one_two_and_four_processes_give_the_same_bits_in_exact_mode(results, way):
    assert results[1]["exact"][0] == results[2]["exact"][0] == results[4]["exact"][0]
    assert results[1][way][0]["counts"] == results[4][way][0]["counts"] == results[1]["ddp"][0]["counts"]


@pytest.mark.parametrize("size", [1, 4])
def test_a_buffer_that_moves_late_by_no_rule_trains_and_is_warned_of(results, size):
    """Counts are added up and floats averaged; a flag, on which all microbatches agree, needs no word."""
    found = results[size]["late"][0]
    warned = {text.split()[3] for text in found["warned"]}
    assert warned == {"late_counts", "scale"} and "Write buffers = {'late_counts': 'sum'}" in "".join(found["warned"])
    expected = results[size]["ddp"][0]
    assert {**found, "warned": []} == {**expected, "warned": []}
    assert {text.split()[3] for text in expected["warned"]} == {"scale"}


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_run_that_goes_on_in_another_learner_ends_with_the_same_bits(results, size):
    assert {**results[size]["resumed"][0], "warned": 0} == {**results[size]["late"][0], "warned": 0}


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("no rules", ["these buffers of the model: average, counts, latest, seen, steps, total.", '"counts": "sum"',
                      '"average": "mean"']),
        ("no such buffer", ["buffers=count matches no name. Nearest: counts"]),
        ("mean of whole numbers", ["the rule of counts is mean, but the values are torch.int64"]),
        ("not saved", ["no checkpoint would hold them: seen. ", "without persistent=False"]),
        ("first rows", ["the first forward pass changes these parameters of the model: layer.bias"]),
    ],
)  # fmt: skip
def test_what_cannot_be_combined_is_refused_before_the_first_step(results, size, name, texts):
    for message in results[size][name]:
        assert isinstance(message, str) and all(text in message for text in texts), message


def test_batch_norm_needs_no_word_and_whole_numbers_that_came_apart_end_the_run(results):
    first, *others = results[4]["batch norm"]
    assert first["norm.num_batches_tracked"] == STEPS and not first["warned"]
    assert all(other == first for other in others)
    assert all("differ in counts" in message for message in results[2]["apart"])


def test_spectral_norm_needs_no_rule():
    module = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))
    legacy = nn.utils.spectral_norm(nn.Linear(3, 3))
    from vgp.train.loop.buffers import _known_rule, find_buffers

    for each in (module, legacy):
        assert {_known_rule(place) for place in find_buffers(each).values()} == {"last"}


def test_values_of_many_kinds_are_combined_without_loss():
    start = torch.tensor([2**60, 0])
    values = [torch.tensor([2**60 + 1, 5]), torch.tensor([2**60 + 2, 0])]
    assert combine_values("sum", start, values, [0.5, 0.5]).tolist() == [2**60 + 3, 5]
    flag = torch.tensor([True, False])
    assert combine_values("sum", flag, [~flag, ~flag], [0.5, 0.5]).tolist() == [False, True]
    assert combine_values("mean", torch.zeros(1), [torch.ones(1), torch.zeros(1)], [0.25, 0.75]).tolist() == [0.25]


def test_a_range_is_the_extreme_of_all_microbatches():
    start, values = torch.tensor([0.0, -9.0]), [torch.tensor([1.0, -9.0]), torch.tensor([0.0, 2.0])]
    assert combine_values("max", start, values, [0.5, 0.5]).tolist() == [1.0, 2.0]
    assert combine_values("min", start, values, [0.5, 0.5]).tolist() == [0.0, -9.0]


def test_a_shared_buffer_that_one_module_replaces_is_refused():
    module = nn.Module()
    module.one, module.two = nn.Module(), nn.Module()
    module.one.register_buffer("count", torch.zeros(()))
    module.two.register_buffer("count", module.one.count)
    with keep_buffers(module) as before:
        module.two.count += 1
        assert find_changed(before) == ["one.count"]
    module.two.count = module.two.count + 1
    with pytest.raises(UserError, match="replaces the buffer one.count"):
        find_changed(before)


def test_a_number_and_a_tensor_that_a_pass_changes_are_named_and_restored():
    module = nn.Module()
    module.inner = nn.Module()
    module.inner.calls, module.inner.total, module.inner.cache = 0, torch.zeros(2), None
    total = module.inner.total
    with keep_attributes(module) as changed:
        module.inner.calls += 1
        module.inner.total += 1
        module.inner.cache = torch.ones(1)
        module.inner.late = 1
    assert changed == ["inner.calls", "inner.total"]
    assert (module.inner.calls, module.inner.cache, hasattr(module.inner, "late")) == (0, None, False)
    assert module.inner.total is total and total.tolist() == [0, 0]


def test_values_are_put_back_whoever_changed_them_and_a_nan_is_no_change():
    module = nn.Module()
    module.register_buffer("count", torch.tensor([torch.nan, 1.0]))
    kept = module.count
    with keep_buffers(module) as before:
        assert not find_changed(before)
        module.count = module.count + 1
        assert find_changed(before) == ["count"]
    assert module.count is kept and is_same(kept, torch.tensor([torch.nan, 1.0]))
