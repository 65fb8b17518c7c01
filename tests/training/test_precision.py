"""Strategy and precision do not decide what is learned, whatever the scale of the inputs."""

import pytest

from training.launch import launch

STRATEGIES = {
    "ddp": {},
    "exact": {"exact": True},
    "fsdp": {"strategy": "fsdp"},
    "fsdp, recomputed": {"strategy": "fsdp", "activation_checkpointing": True},
}


def test_every_strategy_and_precision_learns_what_plain_float32_learns_on_inputs_of_any_scale(monkeypatch, capfd):
    """Each step's loss: in float32 up to the order of additions, in bfloat16 within 1 %."""
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # virtual machines may offer AMX and then fault
    runs = {f"{name} {precision}": {"precision": precision, **changes}
            for name, changes in STRATEGIES.items() for precision in ("fp32", "bf16")}  # fmt: skip
    del runs["ddp fp32"], runs["fsdp, recomputed fp32"]  # plain, and no other arithmetic than fsdp's
    curves = launch("scales:curves", runs, nproc=2)
    plain = curves.pop("plain")
    assert plain[-1] < 0.8 * plain[0]
    for name, losses in curves.items():
        assert losses == pytest.approx(plain, rel=1e-5 if name.endswith("fp32") else 1e-2), name
    assert curves["ddp bf16"] != plain
    assert "Warning" not in capfd.readouterr().err
