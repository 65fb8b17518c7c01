import pytest
from torch import nn

from vgp.base.exits import UserError
from vgp.train.loop import optimizers


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
        UserError, match=rf"freeze={pattern.replace('*', '.*').replace('?', '.')} fits no name. {nearest}"
    ):
        optimizers.freeze(Net(), ["head.*", pattern])


def test_a_model_with_nothing_to_train_is_refused():
    with pytest.raises(UserError, match=r"freeze=\* names all: there is nothing to train"):
        optimizers.freeze(Net(), ["*"])
    net = Net().requires_grad_(False)
    with pytest.raises(UserError, match="none wants a gradient: there is nothing to train"):
        optimizers.freeze(net, [])
