"""Parameters on the command line, checked against the pipeline's signature."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.errors import RequestError
from vgp.spec.arguments import parsed
from vgp.spec.parameters import Parameter
from vgp.spec.pipeline_spec import PipelineSpec

SPEC: dict[str, Any] = {
    "root": {
        "inputDefinitions": {
            "parameters": {
                "epochs": {"parameterType": "NUMBER_DOUBLE", "defaultValue": 3.0},
                "seed": {"parameterType": "NUMBER_INTEGER", "defaultValue": 1.0},
                "months": {"parameterType": "STRING", "defaultValue": "1-6"},
                "options": {"parameterType": "STRUCT", "defaultValue": {}},
                "columns": {"parameterType": "LIST", "defaultValue": []},
                "dry": {"parameterType": "BOOLEAN", "defaultValue": False},
            }
        }
    }
}


DECLARED = PipelineSpec(SPEC).parameters


def test_values_get_the_declared_types() -> None:
    given_ = ["epochs=2", "seed=7", "months=1-3", 'options={"width": 8}', "columns=[1]", "dry=TRUE"]
    values = parsed(DECLARED, given_)
    assert values == {
        "epochs": 2.0,
        "seed": 7,
        "months": "1-3",
        "options": {"width": 8},
        "columns": [1],
        "dry": True,
    }


def test_the_value_is_everything_after_the_first_equals_sign() -> None:
    assert parsed(DECLARED, ["months=a=b"]) == {"months": "a=b"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("epoch=3", "no parameter 'epoch'. Did you mean epochs?"),
        ("xyz=3", "no parameter 'xyz'. It has columns, dry, epochs, months, options, seed."),
        ("epochs", "give it as name=value"),
        ("epochs=three", "epochs takes a number"),
        ("epochs=nan", "epochs takes a number"),
        ("seed=1.5", "seed takes an integer"),
        ("dry=yes", "dry takes true or false"),
        ("options=[1]", "options takes a JSON object"),
        ("columns={", "columns takes a JSON list"),
        ("seed=1_000", "seed takes an integer"),
        ("seed=٣", "seed takes an integer"),
        ("seed=9007199254740993", "seed takes an integer, at most 2^53"),
        ("columns=[9007199254740993]", "columns takes a JSON list"),
        ("columns=[NaN]", "columns takes a JSON list"),
        ("columns=" + "[" * 30 + "]" * 30, "columns takes a JSON list"),
        ("columns=" + "[" * 5000, "columns takes a JSON list"),
        ('options={"a": "\\ud800"}', "options takes a JSON object"),
    ],
)
def test_wrong_parameters_are_refused_with_the_rule(text: str, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        parsed(DECLARED, [text])
    assert message in str(refused.value)


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(RequestError, match="given twice"):
        parsed(DECLARED, ["seed=1", "seed=2"])


def test_a_required_parameter_is_asked_for() -> None:
    required = {"data": Parameter("data", "STRING")}
    with pytest.raises(RequestError, match="needs a value for data"):
        parsed(required, [])


@given(st.lists(st.text(max_size=30), max_size=3))
def test_any_text_is_read_or_refused_and_never_crashes(texts: list[str]) -> None:
    with suppress(RequestError):
        parsed(DECLARED, texts)
