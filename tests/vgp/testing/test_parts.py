"""What a user's test of a task sees: sound tasks pass part by part, and each fault has a sentence."""

import pyarrow as pa
import pytest
import torch

from vgp.base.exits import UserError
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask
from vgp.testing import Failed, Parts, prepared


class Shop(TabularTask):
    """Who comes again: those who spent much, or live near."""

    schema = (
        Field("visitor", pa.int64()),
        Field("spent", pa.float64(), nullable=True),
        Field("town", pa.string(), nullable=True),
        Field("again", pa.bool_(), known="after"),
    )
    key = ("visitor",)
    target = "again"
    settings = {**TabularTask.settings, "hidden": [8], "dropout": 0.0, "test_share": 0.2, "validation_share": 0.1}


def rows(count: int = 80) -> list[dict[str, object]]:
    return [
        {"visitor": i, "spent": i * 7 % 50 / 10, "town": ["near", "far", None][i % 3], "again": i * 7 % 50 > 24}
        for i in range(count)
    ]


@pytest.fixture(scope="module")
def prepared_shop() -> Parts:
    return prepared(Shop, rows())


@pytest.fixture
def shop(prepared_shop: Parts, monkeypatch: pytest.MonkeyPatch) -> Parts:
    return prepared_shop


def test_rows_are_prepared_as_a_run_would_and_shown_by_name(shop: Parts) -> None:
    table = shop.table("train")
    assert set(table.column_names) == {"row_id", "spent", "town", "label"}
    assert set(table["town"].to_pylist()) == {"near", "far", ""} and set(table["label"].to_pylist()) == {"no", "yes"}
    assert sum(shop.manifest.rows(split) for split in ("train", "validation", "test")) == 80
    batch = shop.batch(8)
    assert batch["spent"].shape == (8,) and batch["label"].dtype == torch.int64


def test_a_sound_task_passes_part_by_part(shop: Parts) -> None:
    assert shop.loss().item() == shop.loss().item(), "models are made with one seed"
    assert shop.predictions().shape == (32, 2) and shop.predictions(split="test").sum(axis=1) == pytest.approx(1)
    assert min(shop.gradients().values()) >= 0
    assert shop.overfit(steps=40)[-1] < 0.4


def test_data_that_does_not_fit_is_refused_with_its_column() -> None:
    with pytest.raises(UserError, match="column spent, of type double"):
        prepared(Shop, [{**rows(1)[0], "spent": "much"}])
    with pytest.raises(UserError, match="lacks the column"):
        prepared(Shop, pa.table({"visitor": [1]}))
    with pytest.raises(UserError, match="Did you mean split"):
        prepared(Shop, rows(), splitt="hash")

    class Inside(Shop):
        pass

    with pytest.raises(UserError, match="move it to the top level of its module"):
        prepared(Inside, rows())


FAULTS = {
    "loss": [
        (lambda self, model, batch: model(batch).sum(dim=1), "loss has the shape"),
        (lambda self, model, batch: model(batch).mean().double(), "it must be float32"),
        (lambda self, model, batch: model(batch).mean() * float("nan"), "look for a missing value"),
        (lambda self, model, batch: model(batch).mean().detach(), "does not depend on the model's weights"),
        (lambda self, model, batch: 0.5, "loss gave a float"),
    ],
    "predict": [
        (lambda self, model, batch: model(batch).float(), "Is a softmax missing|none may be below 0"),
        (lambda self, model, batch: model(batch).softmax(dim=1)[:, 1], r"gave the shape \(32,\) .* must be \(32, 2\)"),
        (lambda self, model, batch: model(batch).softmax(dim=0) * 0 + model(batch).mean().sigmoid().repeat(2) * 0
         + torch.stack([s := model(batch)[:, 0].softmax(0), 1 - s], dim=1), "must not depend on the rest of the batch"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("part", "fault", "said"), [(part, fault, said) for part, faults in FAULTS.items() for fault, said in faults]
)
def test_each_fault_has_a_sentence(shop: Parts, monkeypatch: pytest.MonkeyPatch, part, fault, said) -> None:
    monkeypatch.setattr(Shop, part, fault)
    with pytest.raises(Failed, match=said):
        shop.loss() if part == "loss" else shop.predictions()


def test_weights_that_the_loss_does_not_use_are_named(shop: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Shop.model

    def with_more(self, data):
        model = made(self, data)
        model.spare = torch.nn.Linear(2, 2)
        return model

    monkeypatch.setattr(Shop, "model", with_more)
    with pytest.raises(Failed, match="the loss does not use spare.weight, spare.bias"):
        shop.gradients()


def test_a_loss_whose_sign_is_turned_round_leads_nowhere(shop: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Shop.loss

    class Turned(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value.clone()

        @staticmethod
        def backward(ctx, gradient):
            return -gradient

    monkeypatch.setattr(Shop, "loss", lambda self, model, batch: Turned.apply(right(self, model, batch)))
    with pytest.raises(Failed, match="no step against the gradient lowers the loss"):
        shop.gradients()
    with pytest.raises(Failed, match="10 steps on 20 rows lowered the loss only from"):
        shop.overfit(steps=10)


def test_a_split_that_is_not_there_is_named(shop: Parts) -> None:
    with pytest.raises(Failed, match="there is no split 'later'; there are"):
        shop.batch(split="later")
