import pytest
import torch
from torch import nn

from vgp.train.loop.trainer_state import Average


def changed(module):
    """Other weights, as an update would leave them."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter))


def test_the_average_forgets_the_first_weights_soon_and_then_decays_as_told():
    torch.manual_seed(0)
    module = nn.Linear(3, 2)
    average = Average(module, list(module.parameters()), 0.5)
    changed(module)  # as a warm start does
    average.begin()
    expected = module.weight.detach().double()
    for step in range(12):
        changed(module)
        average.update(step)
        decay = min(0.5, (1 + step) / (10 + step))  # 0.1, 0.18, 0.25... and 0.5 from step 8 on
        expected = decay * expected + (1 - decay) * module.weight.detach()
        torch.testing.assert_close(average.values["weight"].double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_weights_and_average_come_back_to_the_bit_after_a_validation(dtype):
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(dtype)
    average = Average(module, list(module.parameters()), 0.9)
    changed(module)
    average.update(0)
    assert {value.dtype for value in average.values.values()} == {torch.promote_types(dtype, torch.float32)}
    weights = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    values = {name: tensor.clone() for name, tensor in average.values.items()}
    with average.applied():
        now = module.state_dict()
        assert all(torch.equal(now[name], value.to(dtype)) for name, value in values.items())
        assert not torch.equal(now["0.weight"], weights["0.weight"])
    assert all(torch.equal(tensor, weights[name]) for name, tensor in module.state_dict().items())
    assert all(torch.equal(tensor, values[name]) for name, tensor in average.values.items())
    average.take()
    assert torch.equal(module.state_dict()["0.weight"], values["0.weight"].to(dtype))


def test_only_what_the_optimizer_updates_is_averaged_and_no_buffer():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    average = Average(module, list(module[0].parameters()), 0.9)
    assert sorted(average.tensors()) == ["0.bias", "0.weight"]
    assert average.scalars() == {}
    with pytest.raises(ValueError, match="the average of the weights has decay"):
        average.restore({"decay": 0.9})
