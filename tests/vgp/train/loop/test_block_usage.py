"""Models that work on one process, on two of them and in every way that gradients cross."""

import re
from pathlib import Path

import pytest

from vgp.train.processes.launch import launch

HOW = {"alone": {"alone": True}, "ddp": {"strategy": "ddp"}, "fsdp": {"strategy": "fsdp"}, "exact": {"exact": True}}
#: Noise differs in a share of a weight: FSDP2 has an optimizer draw for its own share.
RIGHT = [(way, how) for how in HOW for way in ("plain", "method", "kept", "unused", "random", "noise")
         if (way, how) != ("noise", "fsdp")]  # fmt: skip
UNUSED = "did not use .* in a step, though it did in the first: spare.weight, spare.bias"
WRONG = {
    ("noise of its own", "ddp"): "differ in inputs.weight, inputs.bias, blocks.0.0.weight",
    ("other order", "fsdp"): "have called different blocks of the model, or in another order",
    ("other block", "fsdp"): "rank 0 calls blocks.2; rank 1 calls no more",
    ("later unused", "fsdp"): UNUSED,
    ("constant", "exact"): "the loss of step 1 on rank . depends on no parameter of the model",
    ("too large", "exact"): r"memory in step 1: CUDA out of memory\.\n.*: microbatches=8 or more \(now 4 of 8 rows\)"
    r"(.|\n)*\nwritten of step 1",
    ("later unused", "ddp"): UNUSED,
}


@pytest.fixture(scope="module")
def said():
    """The result of each trial on each rank, all in one set of two processes."""
    trials = {(way, how): {"way": way, **HOW[how]} for way, how in (*RIGHT, *WRONG)}
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(str(Path(__file__).parents[3] / "helpers"))
    found = launch("branching:trials", list(trials.values()), nproc=2, hang_after_s=30)
    patch.undo()
    return dict(zip(trials, found, strict=True))


def losses(ranks):
    """Of each step: the sum of a rank's two microbatches, or alone of all four; then that of the spare weights."""
    return [sum(step) / 4 for step in zip(*ranks, strict=True)]


@pytest.mark.parametrize("how", ["ddp", "fsdp", "exact"])
def test_methods_kept_models_unused_parameters_and_branches_learn_as_on_one_process(said, how):
    for way in (way for way, other in RIGHT if other == how):
        expected = losses(said[way, "alone"][:1])
        assert losses(said[way, how]) == pytest.approx(expected, rel=1e-4), way
    assert losses(said["kept", how]) == losses(said["plain", how]) != losses(said["unused", how])


def test_what_would_give_wrong_numbers_or_hang_is_a_sentence(said):
    for trial, sentence in WRONG.items():
        assert all(isinstance(text, str) and re.search(sentence, text) for text in said[trial]), (trial, said[trial])
