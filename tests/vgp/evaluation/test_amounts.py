import pytest

from vgp.evaluation.amounts import number, plus


@pytest.mark.parametrize(
    ("value", "shown"),
    [(68_050.4, "68,050"), (0.00123449, "0.001234"), (-0.00123449, "-0.001234"), (-0.0, "0"), (4e-9, "4e-09")],
)
def test_a_number_has_the_digits_that_tell_and_zero_no_sign(value, shown):
    assert number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.00004, "0.0000"), (-0.00004, "0.0000"), (0.0139, "+0.0139"), (-0.0139, "-0.0139")]
)
def test_a_difference_that_is_shown_as_zero_has_no_sign(value, shown):
    assert plus(f"{value:z.4f}") == shown
