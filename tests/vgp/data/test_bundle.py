import json

import pytest
import torch
from torch import nn

from vgp.base.exits import UserError
from vgp.data import bundle
from vgp.protocol import manifest as manifests


@pytest.fixture
def model(digits, tmp_path):
    """A saved, untrained model of the digits task."""
    from digits import Digits

    data = manifests.load(digits)
    module = Digits({"hidden": 8}).model(data)
    card = bundle.ModelCard(task="digits:Digits", options={"hidden": 8}, columns=data.columns, config={"seed": 1},
                            steps=7, parameters=5)  # fmt: skip
    bundle.save(tmp_path / "model", module, card)
    return tmp_path / "model", module, card


def test_a_model_comes_back_as_it_was_saved_and_ready_to_predict(model):
    directory, module, card = model
    task, loaded, read = bundle.load(directory)
    assert read == card
    assert type(task).__name__ == "Digits" and task.options == {"hidden": 8}
    assert not loaded.training
    assert all(
        torch.equal(a, b) for a, b in zip(module.state_dict().values(), loaded.state_dict().values(), strict=True)
    )


def test_saving_twice_gives_the_same_bytes(model, tmp_path):
    directory, module, card = model
    bundle.save(tmp_path / "again", module, card)
    for name in (bundle.WEIGHTS, bundle.CARD):
        assert (directory / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_tied_weights_are_saved_once(tmp_path):
    """Two names for one tensor, as in language models."""
    module = nn.ModuleDict({"a": nn.Linear(64, 64, bias=False), "b": nn.Linear(64, 64, bias=False)})
    module["b"].weight = module["a"].weight
    card = bundle.ModelCard(task="x:Y", columns=(), config={}, steps=1, parameters=1)
    bundle.save(tmp_path, module, card)
    assert (tmp_path / bundle.WEIGHTS).stat().st_size < 1.5 * 64 * 64 * 4
    with torch.no_grad():
        module["a"].weight.zero_()
    bundle.load_weights(tmp_path, module)
    assert module["b"].weight.abs().sum() > 0


def test_an_unfinished_model_is_refused(model):
    (model[0] / bundle.CARD).unlink()
    with pytest.raises(UserError, match="not a finished model"):
        bundle.load(model[0])


def test_a_card_that_is_no_card_is_refused(model):
    card = json.loads((model[0] / bundle.CARD).read_text())
    (model[0] / bundle.CARD).write_text(json.dumps(card | {"surprise": 1}))
    with pytest.raises(UserError, match="surprise"):
        bundle.load_card(model[0])


def test_weights_that_are_cut_short_are_refused(model):
    path = model[0] / bundle.WEIGHTS
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UserError, match="cannot be read as weights"):
        bundle.load(model[0])


def test_a_pickle_is_not_opened(model, tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    torch.save({"weights": Trap()}, model[0] / bundle.WEIGHTS)
    with pytest.raises(UserError, match="cannot be read as weights"):
        bundle.load(model[0])
    assert not (tmp_path / "sprung").exists()


def test_weights_of_another_model_are_refused(model, digits):
    from digits import Digits

    other = Digits({"hidden": 9}).model(manifests.load(digits))
    with pytest.raises(UserError, match="does not fit the model"):
        bundle.load_weights(model[0], other)


def test_a_card_of_the_version_that_knew_months_is_still_a_champion(model):
    path = model[0] / bundle.CARD
    fields = json.loads(path.read_text()) | {"train_months": "2013-01:2013-06", "test_month": "2013-07"}
    path.write_text(json.dumps(fields))
    assert bundle.load_card(model[0]) == model[2]
    path.write_text(json.dumps(fields | {"months": "1-6"}))
    with pytest.raises(UserError, match="months: Extra inputs are not permitted"):
        bundle.load_card(model[0])
