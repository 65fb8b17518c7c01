"""A wrong metric, or a validation without rows, is an error before training starts."""

import shutil
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from training.tasks.flights import Flights
from training.tasks.language_model import LanguageModel
from vgp.base.exits import UserError
from vgp.protocol import manifest
from vgp.steps.run_request import check_request
from vgp.train.fit import train
from vgp.train.loop import validation_metric
from vgp.train.loop.learner import Learner
from vgp.train.loop.sample_order import Plan
from vgp.train.loop.validation import Validation
from vgp.train.processes.rank import Rank
from vgp.train.train_config import parse_config

ROWS = {"train": 1000, "validation": 100}


class Judged(Flights):
    metrics = {"f1@0.5": "max"}

    def validation(self, model, batch):
        return {"f1@0.5": (1, 1)}


def require(task, rows=ROWS, **config):
    validation_metric.require_rows(parse_config(config), task, rows)


def test_a_task_has_the_loss_its_own_metrics_or_the_accuracy_of_classes():
    assert validation_metric.metrics(Flights()) == {"validation_loss": "min", "accuracy": "max"}
    assert validation_metric.metrics(LanguageModel()) == {"validation_loss": "min"}
    assert validation_metric.metrics(Judged()) == {"validation_loss": "min", "f1@0.5": "max"}
    require(Judged(), best_metric="f1@0.5")


def test_a_metric_that_the_task_does_not_have_is_refused_with_the_choices():
    with pytest.raises(
        UserError, match=r"best_metric=acuracy: Flights has validation_loss, accuracy\. Did you mean acc"
    ):
        require(Flights(), best_metric="acuracy")
    with pytest.raises(UserError, match="Judged has validation_loss, f1@0.5"):
        require(Judged(), best_metric="accuracy")
    values = {"task_options": {}, "champion": "", "margin": 0, "confidence": 0.9, "data": ""}
    with pytest.raises(ValueError, match="LanguageModel has validation_loss"):
        check_request(task="language_model", training_options={"best_metric": "accuracy"}, **values)


@pytest.mark.parametrize("metrics", [{"validation_loss": "min"}, {"f1": "best"}, {"a b": "max"}, {"": "max"}])
def test_a_task_that_declares_what_cannot_be_a_metric_is_refused(metrics):
    with pytest.raises(UserError, match="a name of letters, digits"):
        require(type("Own", (Judged,), {"metrics": metrics})())


def test_metrics_without_validation_and_validation_without_metrics_are_refused():
    for members in ({"metrics": {}}, {"validation": Flights.validation}):
        with pytest.raises(UserError, match="must have both `metrics`"):
            require(type("Half", (Judged,), members)())


@pytest.mark.parametrize(
    "config",
    [{"patience": 3}, {"keep_best": True}, {"best_metric": "accuracy"}, {"validate_every_steps": 5},
     {"validate_every_s": 60}, {"min_delta": 0.1}],
)  # fmt: skip
def test_what_needs_a_validation_split_is_refused_without_one_before_anything_starts(config, digits, tmp_path):
    ((name, value),) = config.items()
    folder = shutil.copytree(digits, tmp_path / "data")
    data = manifest.load(folder)
    manifest.save(data.model_copy(update={"splits": {n: data.splits[n] for n in ("train", "test")}}), folder)
    with pytest.raises(UserError, match=f"^{name}={str(value).lower()}: there are no rows to validate on") as refused:
        train(
            parse_config({"task": "digits:Digits", **config}),
            data=folder,
            model=tmp_path / "m",
            checkpoints=tmp_path / "c",
        )
    assert "297 rows in 'test', 1200 rows in 'train'" in str(refused.value)
    assert not (tmp_path / "m").exists() and not (tmp_path / "c").exists()
    require(Flights(), {"train": 1000})  # the defaults need none


def test_more_validations_than_a_learning_curve_holds_are_refused_with_what_would_do():
    with pytest.raises(UserError, match=r"gives 48,829 validations in 48,829 steps; .* at least 5\."):
        require(Flights(), {"train": 10**7, "validation": 9}, epochs=5, validate_every_steps=1)
    require(Flights(), {"train": 10**7, "validation": 9}, epochs=5, validate_every_steps=5)


def test_accuracy_is_the_share_of_rows_whose_likeliest_class_is_right_and_is_measured_where_it_decides(digits):
    from digits import Digits, Net

    def validation(**config):
        request = SimpleNamespace(plan=Plan(1200, 1, 96, 1, 0), config=parse_config(config), data=str(digits))
        return Validation(request, manifest.load(digits), Rank(0, 1, 0, 1, torch.device("cpu")), Digits())

    torch.manual_seed(0)
    model, judged = Net(8, 0.0).eval(), validation(best_metric="accuracy")
    batch = judged.batches[0]
    loss, measured = judged.figures(Digits(), model, batch)
    right = int((model(batch["pixels"]).argmax(dim=1) == batch["label"]).sum())
    assert {name: (int(total), weight) for name, (total, weight) in measured.items()} == {"accuracy": (right, 96)}
    assert loss == Digits().loss(model, batch)
    assert validation().figures(Digits(), model, batch)[1] == {}


def test_validation_batches_stay_in_host_memory(digits):
    """`meta` stands in for a GPU: a tensor that is there has no values."""
    from digits import Digits

    request = SimpleNamespace(plan=Plan(1200, 1, 96, 1, 0), config=parse_config({}), data=str(digits))
    judged = Validation(request, manifest.load(digits), Rank(0, 1, 0, 1, torch.device("meta")), Digits())
    assert {value.device.type for batch in judged.batches for value in batch.values()} == {"cpu"}

    seen, learner = [], object.__new__(Learner)
    learner.module, learner.autocast, learner.config = nn.Linear(1, 1), nullcontext(), parse_config({})
    learner.rank = SimpleNamespace(device=torch.device("meta"), world_size=1, rank=0)
    learner.gradients = SimpleNamespace(loss=lambda batch, figures: seen.extend(batch.values()))
    learner.measured(judged.batches, lambda *_: None, judged.numbers)
    assert {value.device.type for value in seen} == {"meta"} and len(seen) > 2
