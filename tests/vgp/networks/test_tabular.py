"""Networks for tables."""

import pytest
import torch
from sklearn.metrics import mean_pinball_loss

from vgp.networks.tabular import QuantileHead, QuantileNetwork, TabularNetwork, quantile_loss
from vgp.protocol.manifest import Column

COLUMNS = (
    Column(name="seconds", kind="number", type="float", mean=60, std=20),
    Column(name="page", kind="category", type="int32", values=("", "home", "offer"), counts=(0, 5, 5)),
)


def network(columns=COLUMNS, dropout: float = 0.0) -> TabularNetwork:
    torch.manual_seed(0)
    return TabularNetwork(columns, 2, hidden=[8], dropout=dropout)


def batch(seconds: list[float], page: list[int]) -> dict[str, torch.Tensor]:
    return {"seconds": torch.tensor(seconds), "page": torch.tensor(page, dtype=torch.int32)}


def test_numbers_are_standardised_inside_the_model():
    other = network((COLUMNS[0].model_copy(update={"mean": 0, "std": 1}), COLUMNS[1]))
    raw, standard = batch([60.0, 80.0], [1, 2]), batch([0.0, 1.0], [1, 2])
    torch.testing.assert_close(network()(raw), other(standard))
    assert set(network().state_dict()) >= {"mean_F", "scale_F"}


def test_a_missing_number_is_finite_forward_and_backward_and_is_told_from_the_mean():
    model = network()
    logits = model(batch([float("nan"), 60.0], [1, 1]))
    logits.sum().backward()
    assert logits.isfinite().all() and not torch.equal(logits[0], logits[1])
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_dropout_follows_the_global_seed():
    model = network(dropout=0.5).train()
    rows = batch([10.0, 60.0, 90.0], [0, 1, 2])
    torch.manual_seed(1)
    first = model(rows)
    torch.manual_seed(1)
    assert torch.equal(first, model(rows)) and not torch.equal(first, model(rows))


def test_tables_of_only_numbers_or_only_categories_work():
    assert network(COLUMNS[:1])(batch([1.0], [0])).shape == (1, 2)
    assert network(COLUMNS[1:])(batch([1.0], [0])).shape == (1, 2)


SHARES = (0.1, 0.5, 0.9)
AREA = Column(name="area", kind="number", type="float", mean=70, std=20)
#: Labels of some hundred thousands, of which one is huge.
LABEL = Column(
    name="label",
    kind="label",
    type="double",
    mean=320_000.0,
    std=2e6,
    quantiles=tuple(2e5 + 1e4 * i for i in range(21)),
)


@pytest.mark.parametrize("quantiles", [1, 2, 3, 4])
def test_quantiles_rise_for_any_weights_and_the_middle_one_starts_at_the_median(quantiles):
    torch.manual_seed(0)
    raw = 20 * torch.randn(500, 1 + quantiles)
    predicted = QuantileHead(LABEL, quantiles)(raw)
    assert predicted.dtype == torch.float64 and predicted.shape == raw.shape
    assert (predicted[:, 1:].diff(dim=1) >= 0).all()
    start = QuantileHead(LABEL, quantiles)(torch.zeros(1, 1 + quantiles))[0]
    assert start[0] == 320_000 and start[1 + quantiles // 2] == 300_000


def test_the_loss_is_pinball_and_half_the_squared_error_each_in_its_own_unit():
    torch.manual_seed(0)
    predicted, label = torch.randn(50, 4, dtype=torch.float64).cumsum(1), torch.randn(50, dtype=torch.float64)
    scale = torch.tensor([2.0, 0.5, 0.5, 0.5], dtype=torch.float64)
    found = quantile_loss(predicted, scale, label, SHARES)
    pinball = [mean_pinball_loss(label, predicted[:, 1 + i], alpha=q) / 0.5 for i, q in enumerate(SHARES)]
    squared = ((label - predicted[:, 0]) / 2).square().mean() / 2
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(sum(pinball) / 3 + squared.item(), rel=1e-5)


def test_a_label_far_from_0_keeps_its_digits_under_autocast():
    far = LABEL.model_copy(update={"mean": 1.7e9, "std": 10.0, "quantiles": tuple(1.7e9 + i for i in range(21))})
    torch.manual_seed(0)
    model = QuantileNetwork([AREA], far, 3, hidden=[8], dropout=0.0).eval()
    rows = {"area": torch.linspace(20, 120, 64)}
    with torch.no_grad():
        exact = model(rows)[0]
        with torch.autocast("cpu", torch.bfloat16):
            rounded = model(rows)[0]
    assert rounded.dtype == torch.float64
    assert len(exact[:, 0].unique()) == 64
    torch.testing.assert_close(rounded, exact, rtol=0, atol=0.3)


def test_a_label_of_one_value_in_its_middle_half_is_counted_in_deviations():
    zeros = LABEL.model_copy(update={"mean": 1.0, "std": 5.0, "quantiles": (0.0,) * 18 + (1.0, 8.0, 90.0)})
    assert QuantileHead(zeros, 3).scale.tolist() == [5.0, 5.0, 5.0, 5.0]
