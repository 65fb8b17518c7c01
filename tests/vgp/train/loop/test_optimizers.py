"""Several optimizers as one, and parameters that are frozen."""

import copy

import pytest
import torch
from torch import nn

from vgp.base.exits import UserError
from vgp.train.loop import optimizers


class Task:
    """Gives what it was made with."""

    def __init__(self, given):
        self.given = given

    def optimizer(self, model, learning_rate, weight_decay):
        return self.given


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))


def of(module, given):
    return optimizers.build_optimizers(Task(given), module, 0.1, 0.0)


def parts(module):
    matrices = [p for p in module.parameters() if p.ndim == 2]
    vectors = [p for p in module.parameters() if p.ndim == 1]
    return [
        torch.optim.Muon(matrices, lr=0.02),
        torch.optim.AdamW([{"params": vectors[:1]}, {"params": vectors[1:], "lr": 0.1}], lr=0.01),
    ]


def stepped(module, both):
    module(torch.ones(4, 3)).square().sum().backward()
    both.step()
    both.zero_grad()
    return both


def test_several_optimizers_are_one_with_all_groups_and_states_and_their_state_comes_back():
    module, other = net(), net()
    both, again = (of(each, parts(each)) for each in (module, other))
    stepped(module, both)
    assert [group["lr"] for group in both.param_groups] == [0.02, 0.01, 0.1]
    assert both.state.keys() == set(module.parameters())
    other.load_state_dict(module.state_dict())
    saved = copy.deepcopy(both.state_dict())
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2], [3]]
    again.load_state_dict(saved)
    stepped(module, both), stepped(other, again)
    assert all(map(torch.equal, module.parameters(), other.parameters()))


@pytest.mark.parametrize("given", [None, [], "adam", [nn.Linear(1, 1)]])
def test_what_is_no_optimizer_is_refused(given):
    with pytest.raises(UserError, match="the task's optimizer returns .*: it must return a torch.optim.Optimizer"):
        of(net(), given)


def test_a_parameter_in_two_optimizers_or_in_none_is_named():
    module = net()
    first, second = (torch.optim.SGD(module[n].parameters(), lr=0.1) for n in (0, 1))
    whole = torch.optim.SGD(module.parameters(), lr=0.1)
    with pytest.raises(UserError, match=r"more than once: 1\.weight, 1\.bias\."):
        of(module, [whole, second])
    with pytest.raises(UserError, match=r"updates these parameters: 1\.weight, 1\.bias\. .*requires_grad=False"):
        of(module, [first])
    module[1].requires_grad_(False)
    assert of(module, first).parts == [first]


def test_a_parameter_that_is_not_the_models_and_a_rate_that_is_no_number_are_refused():
    module = net()
    with pytest.raises(UserError, match="updates 2 tensors that are not parameters of its model"):
        of(module[0], torch.optim.SGD(module.parameters(), lr=0.1))
    with pytest.raises(UserError, match=r"has learning rates \[nan\]"):
        of(module, torch.optim.SGD(module.parameters(), lr=float("nan")))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
        self.head = nn.Linear(3, 2)
        self.tied = self.head


def test_parameters_whose_names_fit_want_no_gradient():
    net = Net()
    assert optimizers.freeze(net, ["backbone.*", "*.bias"]) == [
        "backbone.0.weight", "backbone.0.bias", "backbone.1.weight", "backbone.1.bias", "head.bias", "tied.bias",
    ]  # fmt: skip
    assert [name for name, parameter in net.named_parameters() if parameter.requires_grad] == ["head.weight"]
    assert optimizers.freeze(Net(), []) == []


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [("backbone", r"Did you mean backbone\.\*\?"), ("backbnoe.*", r"Nearest: backbone\.\*"), ("x?", "There are: back")],
)
def test_a_pattern_that_fits_nothing_is_refused_with_what_is_near(pattern, nearest):
    with pytest.raises(
        UserError, match=rf"freeze={pattern.replace('*', '.*').replace('?', '.')} matches no name. {nearest}"
    ):
        optimizers.freeze(Net(), ["head.*", pattern])


def test_a_model_with_nothing_to_train_is_refused():
    with pytest.raises(UserError, match=r"freeze=\* names all: there is nothing to train"):
        optimizers.freeze(Net(), ["*"])
    net = Net().requires_grad_(False)
    with pytest.raises(UserError, match="none requires a gradient: there is nothing to train"):
        optimizers.freeze(net, [])
