import sys
from types import ModuleType

import pytest

from vgp.base.exits import UserError
from vgp.data import tasks
from vgp.data.task import Task


class Silent(Task):
    def shards(self, data):
        return []

    def rows(self, shard, statistics):
        return {}

    def model(self, data):
        raise NotImplementedError

    def loss(self, model, batch):
        raise NotImplementedError


class Scored(Silent):
    def score(self, model, batch):
        return batch["loss"]


@pytest.fixture
def module(monkeypatch):
    found = ModuleType("contract_tasks")
    found.Silent, found.Scored = Silent, Scored
    monkeypatch.setitem(sys.modules, "contract_tasks", found)


def test_a_task_must_predict_or_score(module):
    with pytest.raises(UserError, match=r"lacks predict \(or score\)"):
        tasks.load("contract_tasks:Silent")
    assert tasks.load("contract_tasks:Scored").likelihood
    assert not tasks.load("flights").likelihood


def test_an_option_that_a_task_does_not_have_is_refused():
    """Also by a task that is no table, to which a window of time means nothing."""
    with pytest.raises(UserError, match="Digits has no option 'train'.*channels"):
        tasks.load("docs.examples.digits:Digits", {"train": "6 months"})
