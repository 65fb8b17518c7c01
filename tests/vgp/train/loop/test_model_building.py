"""Models that training can build, and a model that no rank holds whole: building, resuming and writing it."""

import pytest
import torch
from torch import nn

from vgp.base.exits import UserError
from vgp.train.loop.model_building import build_whole
from vgp.train.processes.launch import launch
from vgp.train.train_config import TrainConfig


class Extra(nn.Linear):
    def get_extra_state(self):
        return {"calls": 1}


def with_parameter(value):
    module = nn.Linear(2, 1)
    module.other = nn.Parameter(value)
    return module


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize(
    ("make", "refused_by", "name"),
    [
        (lambda: with_parameter(torch.ones(2, dtype=torch.complex64)), ["ddp", "fsdp"], "other"),
        (lambda: Extra(2, 1), ["ddp", "fsdp"], "_extra_state"),
        (lambda: with_parameter(torch.tensor(1.0)), ["fsdp"], "other"),
        (lambda: with_parameter(torch.ones(0, 2)), ["fsdp"], "other"),
        (lambda: with_parameter(torch.ones(2, dtype=torch.float64)), ["fsdp"], "float32 and float64"),
    ],
    ids=["complex", "extra state", "single number", "empty", "two types"],
)  # fmt: skip
def test_a_model_that_cannot_be_trained_is_refused_by_name(make, refused_by, name, strategy):
    class Built:
        def model(self, data):
            return make()

    class Cpu:
        device = torch.device("cpu")

    config = TrainConfig(strategy=strategy)
    if strategy not in refused_by:
        assert build_whole(Built(), None, config, Cpu()).module
        return
    with pytest.raises(UserError, match=name):
        build_whole(Built(), None, config, Cpu())


def test_a_sharded_model_is_made_resumed_and_written_with_the_bits_of_a_whole_one(tmp_path, capfd):
    assert launch("sharding:everything", str(tmp_path), nproc=2) == "all held"
    said = capfd.readouterr().err
    assert "checkpoint skipped: run000-step000000002-ab-1.safetensors fails its checksum" in said
