"""The copy that is made while training goes on."""

import threading

import pytest
import torch

from vgp.train.checkpoint import training_state
from vgp.train.checkpoint.snapshot import Snapshot


class Slow(Snapshot):
    """Copies when the test asks."""

    def __init__(self):
        super().__init__()
        self.go = threading.Event()

    def complete(self):
        self.go.wait(60)
        super().complete()


@pytest.fixture
def snapshot():
    return Slow()


def start(snapshot):
    thread = threading.Thread(target=snapshot.complete)
    thread.start()
    return thread


def test_what_may_change_is_copied_at_once_and_the_rest_in_the_background(snapshot):
    buffer, weight = torch.ones(3), torch.ones(4)
    snapshot.begin({"buffer": buffer, "weight": weight}, {"weight"})
    buffer.zero_()  # as batch norm in the next forward pass
    thread = start(snapshot)
    assert snapshot.copies["weight"].tolist() == [0] * 4
    snapshot.go.set()
    snapshot.wait_copied()
    weight.zero_()  # as the optimizer's next step
    thread.join()
    snapshot.require_whole()
    assert snapshot.copies["buffer"].tolist() == [1] * 3 and snapshot.copies["weight"].tolist() == [1] * 4


def test_training_waits_with_its_next_change_until_the_copy_is_made(snapshot):
    snapshot.begin({"weight": torch.ones(4)}, {"weight"})
    start(snapshot)
    released = threading.Thread(target=snapshot.wait_copied)
    released.start()
    released.join(0.2)
    assert released.is_alive()
    snapshot.go.set()
    released.join(5)
    assert not released.is_alive()


def test_a_weight_that_changes_meanwhile_spoils_the_copy(snapshot):
    weight = torch.ones(4)
    snapshot.begin({"layer": weight[:2].detach()}, {"layer"})
    weight.clamp_(0, 0.5)  # a task that writes to its weights in the forward pass
    snapshot.go.set()
    thread = start(snapshot)
    snapshot.wait_copied()
    with pytest.raises(OSError, match="layer changed outside the optimizer's step"):
        snapshot.require_whole()
    thread.join()


def test_buffers_are_kept_from_save_to_save_unless_the_shape_changes(snapshot):
    snapshot.go.set()
    arenas = []
    for size in (4, 4, 5):
        snapshot.begin({"weight": torch.ones(size)}, {"weight"})
        snapshot.complete()
        snapshot.wait_copied()
        arenas.append(snapshot.arena)
        assert snapshot.copies["weight"].tolist() == [1] * size
    assert arenas[0] is arenas[1] is not arenas[2]
    snapshot.begin({"other": torch.ones(1)}, frozenset())
    assert snapshot.copies.keys() == {"other"}


def test_weights_and_optimizer_state_are_steady_and_running_statistics_are_not(subject):
    subject.train()
    stable = training_state.stable_names(subject.model, subject.optimizer)
    moving = training_state.tensors_of(subject.model, subject.optimizer).keys() - stable
    assert moving == {"model/1.running_mean", "model/1.running_var", "model/1.num_batches_tracked"}
    subject.model[0].weight.requires_grad_(False)
    frozen = torch.optim.AdamW(p for p in subject.model.parameters() if p.requires_grad)
    assert "model/0.weight" not in training_state.stable_names(subject.model, frozen)


def test_the_copies_lie_in_one_piece_of_memory_of_their_own_size(snapshot):
    """Of every type and shape; none is rounded up to a power of two."""
    shapes = [(3, 5), (), (0, 4), (1000, 33), (7,)]
    dtypes = [torch.float32, torch.bfloat16, torch.float64, torch.int64, torch.bool, torch.uint8]
    share = {f"{dtype} {shape}": torch.randint(0, 2, shape).to(dtype) for dtype in dtypes for shape in shapes}
    snapshot.go.set()
    snapshot.begin(share, set(list(share)[::2]))
    snapshot.complete()
    snapshot.wait_copied()
    assert snapshot.copies.keys() == share.keys()
    assert all(torch.equal(copy, share[name]) and copy.dtype == share[name].dtype
               for name, copy in snapshot.copies.items())  # fmt: skip
    memory = {copy.untyped_storage().data_ptr() for copy in snapshot.copies.values()}
    assert memory == {snapshot.arena.memory.data_ptr()}
    assert snapshot.arena.bytes < sum(tensor.nbytes for tensor in share.values()) + 64 * len(share)
    assert all(copy.data_ptr() % 64 == 0 for copy in snapshot.copies.values() if copy.numel())
