import pytest

from vgp.base.exits import UserError
from vgp.train.train_config import OPERATIONAL, TrainConfig, parse_config


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epohcs": 3}, "no setting 'epohcs'. Did you mean epochs?"),
        ({"zzz": 3}, "no setting 'zzz'. Choices: "),
        ({"epochs": 0}, "epochs=0: input should be greater than 0"),
        ({"epochs": "many"}, "epochs='many': input should be a valid number"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"learning_rate": float("inf")}, "learning_rate=inf: input should be a finite number"),
        ({"validate_every_s": float("inf")}, "validate_every_s=inf: input should be a finite number"),
        ({"global_batch_size": 10**23}, "input should be less than or equal to 2147483648"),
        ({"precision": "fp8"}, "precision='fp8': input should be 'auto', 'fp32', 'bf16' or 'fp16'"),
        ({"microbatches": 8, "global_batch_size": 4}, "microbatches=8 is more than global_batch_size=4"),
        ({"keep": 1}, "keep=1: input should be greater than or equal to 3"),
        ({"exact": True, "gradient_precision": "bf16"}, "exact=true adds gradients in float32"),
        ({"exact": True, "strategy": "fsdp"}, "exact=true works with strategy=ddp only"),
    ],
)
def test_a_wrong_setting_is_named_with_its_rule(given, message):
    with pytest.raises(UserError) as caught:
        parse_config(given)
    assert message in str(caught.value)


def test_every_mistake_is_reported_at_once():
    with pytest.raises(UserError) as caught:
        parse_config({"epochs": -1, "keep": 0, "sed": 4})
    assert len(str(caught.value).splitlines()) == 3


def test_every_field_is_described():
    """The sentence under a field is what the documentation shows."""
    import inspect

    source = inspect.getsource(TrainConfig)
    for name in TrainConfig.model_fields:
        after = source.split(f"    {name}: ", 1)[1].split("\n", 1)[1].lstrip()
        assert after.startswith('"""'), name


def test_operational_fields_do_not_decide_the_numbers():
    changed = parse_config({"keep": 9, "checkpoint_every_s": 5, "resume": "never"})
    assert changed.decisive_fields() == parse_config({}).decisive_fields()
    assert set(OPERATIONAL) < set(TrainConfig.model_fields)
    assert parse_config({"seed": 1}).decisive_fields() != parse_config({}).decisive_fields()
    assert "gradient_precision" not in parse_config({}).decisive_fields()
    assert parse_config({"gradient_precision": "bf16"}).decisive_fields()["gradient_precision"] == "bf16"
    assert "tf32" not in parse_config({}).decisive_fields() and parse_config({"tf32": True}).decisive_fields()["tf32"]


@pytest.mark.parametrize("value", [0, -3, "often", None, True, 1e400])
def test_an_interval_between_checkpoints_is_a_number_above_0_or_auto(value):
    with pytest.raises(UserError, match="^checkpoint_every_s=.*: give a number of seconds above 0, or auto.$"):
        parse_config({"checkpoint_every_s": value})
    assert [parse_config({"checkpoint_every_s": good}).checkpoint_every_s for good in ("auto", "7", 0.5)] == [
        "auto",
        7,
        0.5,
    ]
