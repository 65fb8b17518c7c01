import torch

from vgp.networks.networks import TabularNetwork
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
