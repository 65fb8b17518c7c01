"""Layers laid over one another: tables key by key, and what gives way as a whole."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from vgp.base.errors import RequestError
from vgp.settings import layers
from vgp.settings.layers import Layer, merge
from vgp.settings.settings_model import Settings

VALUES = st.recursive(
    st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=2),
    lambda inner: st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=8,
)
TREES = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def layer(values: dict[str, Any], name: str = "") -> Layer:
    return Layer("flag", values, names={(): name})


def merged(*trees: dict[str, Any]) -> dict[str, Any]:
    return merge([layer(tree) for tree in trees]).values


def leaves(tree: Any, at: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(tree, dict):
        return {at: tree}
    return {keys: value for key, inner in tree.items() for keys, value in leaves(inner, (*at, key)).items()}


@hypothesis_settings(deadline=None)
@given(TREES, TREES)
def test_every_value_of_the_stronger_layer_is_in_effect(weak: dict, strong: dict) -> None:
    result = leaves(merged(weak, strong))
    assert {keys: result[keys] for keys in leaves(strong)} == leaves(strong)


@hypothesis_settings(deadline=None)
@given(TREES, TREES)
def test_a_value_of_the_weaker_layer_stays_unless_the_stronger_overrides_it(weak: dict, strong: dict) -> None:
    result, above = leaves(merged(weak, strong)), {**leaves(strong), **tables(strong)}
    for keys, value in leaves(weak).items():
        hidden = any(keys[:size] in leaves(strong) for size in range(1, len(keys) + 1)) or keys in above
        assert hidden or result[keys] == value


def tables(tree: Any, at: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    if not isinstance(tree, dict):
        return {}
    return {at: tree} | {
        keys: value for key, inner in tree.items() for keys, value in tables(inner, (*at, key)).items()
    }


@hypothesis_settings(deadline=None)
@given(TREES, TREES, TREES)
def test_the_order_of_merging_does_not_matter(first: dict, second: dict, third: dict) -> None:
    assert merged(merged(first, second), third) == merged(first, second, third)


@hypothesis_settings(deadline=None)
@given(TREES)
def test_nothing_over_a_tree_is_the_tree_and_twice_is_once(tree: dict) -> None:
    assert merged(tree) == merged(tree, {}) == merged(tree, tree) == tree


@hypothesis_settings(deadline=None)
@given(TREES, TREES)
def test_every_value_comes_from_the_strongest_layer_that_gives_it(weak: dict, strong: dict) -> None:
    below, above = layer(weak, "weak"), layer(strong, "strong")
    result = merge([below, above])
    for keys, value in leaves(result.values).items():
        assert result.source(keys).name == ("strong" if keys in leaves(strong) else "weak")
        assert leaves(strong if keys in leaves(strong) else weak)[keys] == value
    assert {keys for keys in result.origins if keys not in tables(result.values)} == set(leaves(result.values))


def test_the_layers_themselves_stay_as_they_are() -> None:
    below = {"labels": {"a": "1"}, "list": [1]}
    result = merged(below, {"labels": {"b": "2"}})
    result["list"].append(2)
    assert below == {"labels": {"a": "1"}, "list": [1]}


@pytest.mark.parametrize(
    ("weak", "strong", "together"),
    [
        ({"accelerator": "L4", "count": 4}, {"machine": "e2"}, {"machine": "e2"}),
        ({"min_vcpu": 8, "min_memory_gb": 1, "min_gpu_memory_gb": 1}, {"machine": "e2"}, {"machine": "e2"}),
        ({"machine": "g2"}, {"accelerator": "H100"}, {"accelerator": "H100"}),
        ({"machine": "g2"}, {"min_vcpu": 64}, {"min_vcpu": 64}),
        ({"accelerator": "L4", "count": 4}, {"accelerator": "H100"}, {"accelerator": "H100", "count": 4}),
        ({"accelerator": "L4", "count": 4}, {"count": 8}, {"accelerator": "L4", "count": 8}),
        (
            {"machine": "n1", "accelerator": "T4", "count": 1},
            {"count": 2},
            {"machine": "n1", "accelerator": "T4", "count": 2},
        ),
        (
            {"machine": "g2", "timeout": "6h"},
            {"machine": "n1", "accelerator": "T4", "count": 1},
            {"machine": "n1", "accelerator": "T4", "count": 1, "timeout": "6h"},
        ),
        ({"strategy": "flex_start", "max_wait": "2h"}, {"strategy": "spot"}, {"strategy": "spot"}),
        ({"env": {"A": "1", "B": "1"}}, {"env": {"B": "2"}}, {"env": {"A": "1", "B": "2"}}),
        (
            {"capacity": [{"count": 8}], "deadline": "5h", "timeout": "1h"},
            {"machine": "g2"},
            {"machine": "g2", "timeout": "1h"},
        ),
        ({"capacity": [{"count": 8}], "deadline": "5h"}, {"accelerator": "L4"}, {"accelerator": "L4"}),
        ({"machine": "g2"}, {"capacity": [{"count": 8}]}, {"machine": "g2", "capacity": [{"count": 8}]}),
        (
            {"capacity": [{"count": 4}], "deadline": "5h"},
            {"machine": "g2", "capacity": [{"count": 8}]},
            {"machine": "g2", "capacity": [{"count": 8}], "deadline": "5h"},
        ),
    ],
)
def test_a_step_that_asks_for_another_machine_drops_the_old_request(weak: dict, strong: dict, together: dict) -> None:
    assert merged({"steps": {"train": weak}}, {"steps": {"train": strong}}) == {"steps": {"train": together}}


def test_parameters_merge_by_name_and_a_table_among_them_is_one_value() -> None:
    weak = {"schedules": {"n": {"parameters": {"epochs": 1, "options": {"depth": 2, "vocab": 1}}}}}
    strong = {"schedules": {"n": {"parameters": {"options": {"depth": 4}}}}}
    assert merged(weak, strong)["schedules"]["n"]["parameters"] == {"epochs": 1, "options": {"depth": 4}}


FIELDS = set(Settings.model_fields) - {"environment"}
DECLARED = {"steps": {"train": {}, "train-large": {}}, "schedules": {"nightly-eu": {}}}


def values(environ: dict[str, str]) -> Any:
    return layers.build_variable_layer(environ, FIELDS, DECLARED).values


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
        ("PIPELINES_LABELS", "team=ml", "PIPELINES_LABELS: labels is a table; write a JSON object"),
        ("PIPELINES_STEPS__TRAIN", "[1]", "PIPELINES_STEPS__TRAIN: steps.train is a table"),
        ("PIPELINES_STEPS__TRAIN__ENV", "A=1", "steps.train.env is a table"),
    ],
)
def test_a_slip_is_refused_by_the_name_of_the_variable(name: str, text: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        values({name: text})
    assert message in str(refused.value)


def test_the_value_of_an_unknown_variable_is_never_printed() -> None:
    with pytest.raises(RequestError) as refused:
        values({"PIPELINES_PROJEKT": "canary", "PIPELINES_LABELS": "canary"})
    assert "canary" not in str(refused.value)


def test_another_image_takes_away_the_light_image_that_was_built_with_the_weaker_one() -> None:
    weak, strong = {"image": "i:1", "light_image": "i@1"}, {"image": "i:2"}
    assert merged(weak, strong) == strong
    assert merged(weak, {**strong, "light_image": "i@2"}) == {"image": "i:2", "light_image": "i@2"}
    assert merged(weak, {"light_image": "i@2"}) == {"image": "i:1", "light_image": "i@2"}
