"""Trigger conditions as kfp compiles them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.check.spec.dag import evaluate_condition

VALUE = "inputs.parameter_values['pipelinechannel--x']"
OTHER = "inputs.parameter_values['pipelinechannel--y']"


def check(condition: str, x: object, y: object = None) -> bool:
    return evaluate_condition(condition, {"pipelinechannel--x": x, "pipelinechannel--y": y})


@pytest.mark.parametrize(
    ("condition", "x", "expected"),
    [
        (f"{VALUE} == 'promote'", "promote", True),
        (f"{VALUE} == 'promote'", "keep", False),
        (f"{VALUE} != 'promote'", "keep", True),
        (f"{VALUE} > 0.4", 0.5, True),
        (f"int({VALUE}) > 2", "3", True),
        (f"{VALUE} == true", True, True),
        (f"{VALUE} == false", True, False),
        (f"!({VALUE} == 'a') && !({VALUE} == 'b')", "c", True),
        (f"!({VALUE} == 'a') && !({VALUE} == 'b')", "b", False),
        (f"{VALUE} == 'a' || {VALUE} == 'b'", "b", True),
        (f"{VALUE} > -1.5", -1, True),
        (f"{VALUE} == '2'", 2, True),
        (f"{VALUE} == '2'", 3, False),
        (f"{VALUE} == 'true'", True, True),
    ],
)
def test_conditions_hold_as_their_author_meant(condition: str, x: object, expected: bool) -> None:
    assert check(condition, x) is expected


def test_operators_inside_quoted_text_are_text() -> None:
    assert check(f"{VALUE} == 'a && !b || c'", "a && !b || c")


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="'\\\n\r\0"), max_size=20))
def test_any_quoted_text_equals_itself(text: str) -> None:
    assert check(f"{VALUE} == '{text}'", text)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_numbers_compare_as_numbers(x: int, y: int) -> None:
    assert check(f"{VALUE} < {OTHER}", x, y) == (x < y)


@pytest.mark.parametrize("condition", ["__import__('os').system('true')", "x", "1 +", f"{VALUE}.real", "[1]"])
def test_what_is_not_a_condition_is_refused_and_never_run(condition: str) -> None:
    with pytest.raises(ValueError, match="cannot read the condition"):
        check(condition, 1)


def test_a_value_that_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="needs pipelinechannel--x, which has no value"):
        evaluate_condition(f"{VALUE} == 1", {})
