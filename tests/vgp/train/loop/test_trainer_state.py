import pytest
import torch
import torch.distributed as dist
from torch import nn

from vgp.base.exits import UserError
from vgp.train.checkpoint import recovery, state
from vgp.train.checkpoint.saved import Saved
from vgp.train.checkpoint.store import DiskStore
from vgp.train.checkpoint.writer import Writer
from vgp.train.loop.trainer_state import TrainerState


class Scale:
    """A part: how large, and since how many steps."""

    def __init__(self, size=0.0, steps=0):
        self.size, self.steps = torch.tensor(size), steps

    def tensors(self):
        return {"size": self.size}

    def scalars(self):
        return {"steps": self.steps}

    def restore(self, scalars):
        if type(scalars.get("steps")) is not int:
            raise ValueError("the scale has no number of steps")
        self.steps = scalars["steps"]


def trainer(**parts):
    module = nn.Linear(3, 2)
    trained = TrainerState()
    for name, part in parts.items():
        trained.add(name, part)
    return module, torch.optim.SGD(module.parameters()), trained


@pytest.fixture
def saved(tmp_path):
    """A checkpoint of a trainer with a scale of 3 since 7 steps."""
    module, optimizer, trained = trainer(scaler=Scale(3.0, 7))
    writer = Writer(DiskStore(tmp_path), dist.HashStore(), rank=0, world_size=1, run=0, launch_id="ab", settings={},
                    keep=3, patience_s=10)  # fmt: skip
    tensors = state.tensors_of(module, optimizer) | trained.tensors()
    layout = state.stored(tensors, 1)
    scalars = state.scalars_of(module, optimizer)
    writer.save(4, state.share(tensors, layout, 0), layout, scalars, {}, trainer=trained.scalars())
    assert writer.wait()
    return Saved(writer.store, recovery.read_manifest(writer.store, recovery.committed(writer.store, 0)[0]))


def test_a_part_comes_back_with_tensors_and_scalars_which_the_manifest_lists(saved):
    assert saved.manifest.trainer == {"scaler": {"steps": 7}}
    assert "scaler/size" in saved.manifest.tensors
    module, optimizer, trained = trainer(scaler=Scale())
    state.restore(module, optimizer, saved, trained.tensors())
    trained.restore(saved.manifest.trainer)
    assert (trained.parts["scaler"].size.item(), trained.parts["scaler"].steps) == (3.0, 7)


def test_a_checkpoint_with_other_parts_is_refused(saved):
    module, optimizer, trained = trainer()
    with pytest.raises(UserError, match="scaler/size"):
        state.restore(module, optimizer, saved, trained.tensors())
    with pytest.raises(ValueError, match="it holds scaler besides model and optimizer, not nothing"):
        trained.restore(saved.manifest.trainer)
    with pytest.raises(ValueError, match="scaler is no mapping"):
        trainer(scaler=Scale())[2].restore({"scaler": 3})
    with pytest.raises(ValueError, match="no number of steps"):
        trainer(scaler=Scale())[2].restore({"scaler": {}})


def test_no_two_parts_have_one_name():
    for name in ("scaler", "model", "a/b"):
        with pytest.raises(ValueError, match="another part"):
            trainer(scaler=Scale())[2].add(name, Scale())
