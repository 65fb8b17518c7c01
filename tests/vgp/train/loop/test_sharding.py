"""Parameters of a sharded model are gathered as autocast would round them, and once if they fit."""

import functools

import pytest

from vgp.train.processes.launch import launch

BF16, FSDP = {"precision": "bf16"}, {"strategy": "fsdp"}
#: The task, whether gathered parameters stay, and settings.
RUNS = {
    "ddp": ("Task", True, BF16),
    "roomy": ("Task", True, BF16 | FSDP),
    "tight": ("Task", False, BF16 | FSDP),
    "recomputed": ("Task", False, BF16 | FSDP | {"activation_checkpointing": True}),
    "selective": ("Task", False, BF16 | FSDP | {"activation_checkpointing": "selective"}),
    "unused": ("Task", False, BF16 | FSDP | {"unused_parameters": True}),
    "fp16": ("Task", False, {"precision": "fp16"} | FSDP),
    "fp32": ("Task", False, {"precision": "fp32"} | FSDP),
    "ddp, rounded": ("Task", True, BF16 | {"gradient_precision": "bf16"}),
    "rounded": ("Task", False, BF16 | FSDP | {"gradient_precision": "bf16"}),
    "fp32, rounded": ("Task", False, {"precision": "fp32", "gradient_precision": "bf16"} | FSDP),
    "reader": ("Reader", False, BF16 | FSDP),
}
run_all = functools.cache(lambda: launch("gathered:figures", RUNS, nproc=2))


def test_a_sharded_run_has_the_bits_of_autocast_on_a_replicated_model():
    runs = run_all()
    expected = runs["ddp"]["losses"]
    for name in ("roomy", "tight", "recomputed", "selective", "unused", "reader"):
        for found, wanted in zip(runs[name]["losses"], expected, strict=True):
            assert found["parts"] == wanted["parts"], name
            assert found["norm"] == pytest.approx(wanted["norm"], rel=1e-6), name  # added in another order
    assert runs["fp32"]["losses"] != expected != runs["fp16"]["losses"]


def test_no_rounded_copy_of_a_block_stays_in_memory_from_the_forward_to_the_backward_pass():
    runs = run_all()
    for name in ("tight", "recomputed", "fp16", "fp32"):
        assert runs[name]["held"] == 0, name
    assert runs["reader"]["held"] >= 2 * runs["reader"]["matrices"]  # autocast's copies


def test_blocks_are_gathered_in_half_precision_and_only_once_a_step_if_they_fit():
    runs = run_all()
    matrices, others = runs["tight"]["matrices"], runs["tight"]["others"]
    in_half, in_full = 2 * matrices + 4 * others, 4 * matrices + 4 * others
    assert runs["roomy"]["gathered"] == pytest.approx(in_half, rel=0.01)  # shares of vectors are padded
    passes = 2 * 2  # forward and backward, of two microbatches
    assert runs["tight"]["gathered"] == pytest.approx(passes * in_half, rel=0.15)  # the rest, once a microbatch
    assert runs["fp32"]["gathered"] == pytest.approx(passes * in_full, rel=0.15)
    assert runs["tight"]["gathered"] < 0.6 * runs["fp32"]["gathered"]
    assert runs["tight"]["reduced"] == runs["fp32"]["reduced"] == pytest.approx(in_full, rel=0.01)


def test_a_block_is_gathered_while_the_block_before_it_computes():
    assert run_all()["tight"]["early"] == 3  # the rest, the first block and the second one, before a matrix product


def test_gradients_cross_in_bfloat16_if_asked_and_are_added_over_microbatches_in_float32():
    runs = run_all()
    assert 2 * runs["rounded"]["reduced"] == 2 * runs["fp32, rounded"]["reduced"] == runs["tight"]["reduced"]
    assert 2 * runs["ddp, rounded"]["all-reduced"] == pytest.approx(runs["ddp"]["all-reduced"], rel=1e-3)
    norms = {name: [step["norm"] for step in run["losses"]] for name, run in runs.items()}
    for name, exact in (("rounded", "tight"), ("ddp, rounded", "ddp"), ("fp32, rounded", "fp32")):
        assert norms[name] != norms[exact] and norms[name] == pytest.approx(norms[exact], rel=2e-3), name


def test_the_log_names_the_share_in_half_precision_or_the_obstacle():
    runs = run_all()
    share = runs["tight"]["matrices"] / (runs["tight"]["matrices"] + runs["tight"]["others"])
    assert runs["tight"]["line"] == f"fsdp gathers {share:.1%} of the parameters in bf16, and the others in float32"
    assert "because the loss cannot run without them: GuardOnDataDependentSymNode" in runs["reader"]["line"]
