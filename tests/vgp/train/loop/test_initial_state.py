"""Trained weights to begin with, and what differs where a run goes on elsewhere."""

from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from vgp.base.exits import UserError
from vgp.data import bundle
from vgp.train.loop import initial_state
from vgp.train.loop.initial_state import landing_difference
from vgp.train.train_config import parse_config
from vgp.train.warm_start_files import open_weights


def said(*, before=4, now=4, microbatches=4, exact=False, then="NVIDIA A100-SXM4-80GB", device="NVIDIA A100-SXM4-80GB"):
    checkpoint = SimpleNamespace(parts=[None] * before, device=then)
    return landing_difference(checkpoint, SimpleNamespace(exact=exact), now, device, microbatches)


def test_nothing_is_said_of_a_run_that_stays():
    assert said() == said(exact=True) == said(then="") == ""


def test_other_processes_differ_in_the_order_of_sums_and_not_at_all_in_exact_mode():
    assert all(fact in said(now=1) for fact in ("4 processes", "1 process:", "another order"))
    assert "exact=true" in said(now=2, exact=True) and "another order" not in said(now=2, exact=True)
    assert "4 microbatches on 3" in said(now=3) and "microbatches" not in said(now=2)


def test_another_kind_of_device_rounds_in_its_own_way_in_any_mode():
    moved, exact = said(device="Tesla T4"), said(device="Tesla T4", exact=True)
    assert all(name in text for name in ("NVIDIA A100-SXM4-80GB", "Tesla T4") for text in (moved, exact))
    assert "another order" in moved and "keep their order" in exact and "exact=true" not in exact


class Net(nn.Module):
    """A backbone, a head, and a matrix that both use."""

    def __init__(self, classes=2):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        self.head = nn.Linear(3, classes)
        self.shared = self.backbone[0]


def there(**changes):
    """The tensors of another such model, without the second name of a tied one."""
    torch.manual_seed(1)
    names = {name: tensor for name, tensor in Net().state_dict().items() if not name.startswith("shared")}
    return {name: tensor + 1 for name, tensor in names.items()} | changes


def take(folder, tensors, module=None, warm_name=lambda name: name, **settings):
    path = folder / "some.safetensors"
    save_file(tensors, path)
    module = module or Net()
    config = parse_config({"warm_start": str(path), **settings})
    rank = SimpleNamespace(local_rank=0, rank=0)
    task = SimpleNamespace(warm_name=warm_name)
    return module, initial_state.take_weights(module, open_weights(str(path)), task, config, rank, 60)


def test_every_tensor_is_taken_by_its_name_and_tied_ones_by_one_of_theirs(tmp_path):
    module, match = take(tmp_path, there())
    found = module.state_dict()
    assert all(torch.equal(found[name], tensor) for name, tensor in there().items())
    assert torch.equal(found["shared.weight"], there()["backbone.0.weight"]) and module.shared is module.backbone[0]
    assert len(match.taken) == len(there()) and match.new == []


def test_other_precisions_are_converted(tmp_path):
    halves = {name: t.bfloat16() if t.is_floating_point() else t for name, t in there().items()}
    module, _ = take(tmp_path, halves)
    assert torch.equal(module.head.weight, halves["head.weight"].float()) and module.head.weight.dtype == torch.float32


@pytest.mark.parametrize(
    ("tensors", "lines"),
    [
        ({"old": torch.ones(1)}, ["not in the model: old"]),
        ({"head.weight": torch.ones(3, 3)}, [r"of another form: head.weight: \[3, 3\] there, \[2, 3\] here"]),
        ({"head.bias": torch.ones(2, dtype=torch.int32)}, ["of another form: head.bias: I32 there, float32 here"]),
        ({"heed.bias": torch.ones(2)}, ["not in the model: heed.bias", "warm_start_new"]),
    ],
)
def test_what_does_not_match_is_listed_and_nothing_is_taken(tmp_path, tensors, lines):
    module = Net()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    with pytest.raises(UserError) as caught:
        take(tmp_path, there(**tensors), module)
    for line in ("does not fit the model that the task builds", *lines):
        caught.match(line)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_what_is_missing_is_listed(tmp_path):
    less = {name: tensor for name, tensor in there().items() if not name.startswith("head")}
    with pytest.raises(UserError, match=r"missing: head\.weight, head\.bias\n"):
        take(tmp_path, less)


def test_a_new_head_stays_as_it_was_made_whatever_the_old_one_was(tmp_path):
    torch.manual_seed(0)
    net = Net(classes=5)
    head = net.head.weight.clone()
    module, match = take(tmp_path, there(), net, warm_start_new="head.*")
    assert torch.equal(module.head.weight, head) and match.new == ["head.weight", "head.bias"]
    assert torch.equal(module.backbone[0].weight, there()["backbone.0.weight"])


def test_names_are_mapped_by_their_beginning_or_by_the_task(tmp_path):
    prefixed = {f"bert.{name}": tensor for name, tensor in there().items()} | {"cls.bias": torch.ones(9)}
    with pytest.raises(
        UserError, match=r'Names in the files begin with bert\.\. Did you mean warm_start_names=\{"": "bert\."\}\?'
    ):
        take(tmp_path, prefixed)
    module, _ = take(tmp_path, prefixed, warm_start_names={"": "bert."}, warm_start_ignore=["cls.*"])
    assert torch.equal(module.head.weight, there()["head.weight"])
    other = {name.replace("backbone.", "encoder."): tensor for name, tensor in there().items()}
    named = {"warm_start_names": {"backbone.": "encoder.", "shared.": "encoder.0."}}
    assert torch.equal(take(tmp_path, other, **named)[0].head.weight, there()["head.weight"])
    own = take(tmp_path, other, warm_name=lambda name: name.replace("backbone.", "encoder."))[0]
    assert torch.equal(own.backbone[0].weight, there()["backbone.0.weight"])
    less = {name: tensor for name, tensor in other.items() if name != "head.bias"}
    _, match = take(tmp_path, less, warm_start_names=named["warm_start_names"],
                    warm_name=lambda name: None if name == "head.bias" else name)  # fmt: skip
    assert match.new == ["head.bias"]


def test_names_here_that_are_longer_are_proposed(tmp_path):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(3, 2)

    with pytest.raises(
        UserError,
        match=r'Names in the model begin with encoder\.\. Did you mean warm_start_names=\{"encoder\.": ""\}\?',
    ):
        take(tmp_path, nn.Linear(3, 2).state_dict(), Wrapped())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warm_start_new": ["haed.*"]}, r"warm_start_new=haed\.\* matches no name. Nearest: .*head\.\*"),
        ({"warm_start_ignore": ["cls.*"]}, r"warm_start_ignore=cls\.\* matches no name"),
        ({"warm_start_names": {"encoder.": "bert."}}, r"warm_start_names=encoder\.\* matches no name"),
        ({"warm_start_new": ["*"]}, "every tensor of the model is new"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(tmp_path, settings, message):
    with pytest.raises(UserError, match=message):
        take(tmp_path, there(), **settings)
    with pytest.raises(UserError, match="do nothing without warm_start"):
        parse_config(settings)


def test_a_model_of_ours_is_taken_and_a_file_cut_short_is_refused(tmp_path):
    other = Net()
    bundle.save_weights(tmp_path, other)
    path = tmp_path / bundle.WEIGHTS
    found = open_weights(str(tmp_path))
    module, task = Net(), SimpleNamespace(warm_name=lambda name: name)
    rank, config = SimpleNamespace(local_rank=0, rank=0), parse_config({"warm_start": str(tmp_path)})
    initial_state.take_weights(module, found, task, config, rank, 60)
    assert all(torch.equal(t, other.state_dict()[name]) for name, t in module.state_dict().items())
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match="cannot be read as weights"):
        open_weights(str(tmp_path))
    with pytest.raises(UserError, match="cannot be read as weights"):
        initial_state.take_weights(module, found, task, config, rank, 60)
