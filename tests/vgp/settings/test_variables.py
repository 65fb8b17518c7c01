"""Environment variables as settings."""

from typing import Any

import pytest

from vgp.base.errors import RequestError
from vgp.settings import layers
from vgp.settings.settings_model import Settings

FIELDS = set(Settings.model_fields) - {"environment"}
DECLARED = {"steps": {"train": {}, "train-large": {}}, "schedules": {"nightly-eu": {}}}


def values(environ: dict[str, str]) -> Any:
    return layers.layer_of_variables(environ, FIELDS, DECLARED).values


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("PIPELINES_REGION", "europe-west4", {"region": "europe-west4"}),
        ("PIPELINES_SERVICE_ACCOUNT", "a@b", {"service_account": "a@b"}),
        ("PIPELINES_LABELS__COST_CENTER", "7", {"labels": {"cost_center": "7"}}),
        ("PIPELINES_LABELS", '{"team": "ml"}', {"labels": {"team": "ml"}}),
        ("PIPELINES_ENDPOINTS__KFP_REGISTRY", "http://x", {"endpoints": {"kfp_registry": "http://x"}}),
        ("PIPELINES_STEPS__TRAIN__NODES", "4", {"steps": {"train": {"nodes": "4"}}}),
        ("PIPELINES_STEPS__TRAIN_LARGE__NODES", "4", {"steps": {"train-large": {"nodes": "4"}}}),
        ("PIPELINES_STEPS__TRAIN__ENV__NCCL_DEBUG", "INFO", {"steps": {"train": {"env": {"NCCL_DEBUG": "INFO"}}}}),
        ("PIPELINES_STEPS__TRAIN", '{"nodes": 2}', {"steps": {"train": {"nodes": 2}}}),
        ("PIPELINES_SCHEDULES__NIGHTLY_EU__PAUSED", "true", {"schedules": {"nightly-eu": {"paused": "true"}}}),
        (
            "PIPELINES_SCHEDULES__NIGHTLY_EU__PARAMETERS__EPOCHS",
            "3.5",
            {"schedules": {"nightly-eu": {"parameters": {"epochs": 3.5}}}},
        ),
        (
            "PIPELINES_SCHEDULES__NIGHTLY_EU__PARAMETERS__PRECISION",
            "2013-07",
            {"schedules": {"nightly-eu": {"parameters": {"precision": "2013-07"}}}},
        ),
        ("PIPELINES_REGION", "", {}),
        ("PIPELINES_ENV", "prod", {}),
        ("PIPELINES_JWT_TOKEN", "x", {}),
        ("REGION", "x", {}),
        ("XPIPELINES_REGION", "x", {}),
    ],
)
def test_a_variable_is_the_setting_that_it_names(name: str, text: str, expected: dict[str, Any]) -> None:
    assert values({name: text}) == expected


def test_one_key_lies_over_its_whole_table() -> None:
    environ = {"PIPELINES_LABELS__TEAM": "b", "PIPELINES_LABELS": '{"team": "a", "cost": "1"}'}
    assert values(environ) == {"labels": {"team": "b", "cost": "1"}}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("PIPELINES_PROJEKT", "x", "PIPELINES_PROJEKT: there is no such setting. Did you mean PIPELINES_PROJECT?"),
        ("PIPELINES_ENVIRONMENT", "x", "Did you mean PIPELINES_ENV?"),
        ("PIPELINES_LABEL__TEAM", "x", "Did you mean PIPELINES_LABELS?"),
        ("PIPELINES_LABELS", "team=ml", "PIPELINES_LABELS: labels is a table: give it as a JSON object"),
        ("PIPELINES_STEPS__TRAIN", "[1]", "PIPELINES_STEPS__TRAIN: steps.train is a table"),
        ("PIPELINES_STEPS__TRAIN__ENV", "A=1", "steps.train.env is a table"),
    ],
)
def test_a_slip_is_refused_by_the_name_of_the_variable(name: str, text: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        values({name: text})
    assert message in str(refused.value)


def test_the_value_of_an_unknown_variable_is_never_told() -> None:
    with pytest.raises(RequestError) as refused:
        values({"PIPELINES_PROJEKT": "canary", "PIPELINES_LABELS": "canary"})
    assert "canary" not in str(refused.value)
