"""The short form of benchmarks/gate.py: a year of nights, each gate on the same data."""

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def gate():
    place = Path(__file__).parents[3] / "benchmarks" / "gate.py"
    spec = importlib.util.spec_from_file_location("benchmarks_gate", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "days", "plain"),
    [("normal", 31, 1), ("Student t, 3 degrees", 31, 0), ("-gamma(4), skewness -1", 20, 20),
     ("-exponential, skewness -2", 31, 100), ("-exponential, skewness -2", 100, 20)],
)  # fmt: skip
def test_a_year_without_a_gain_promotes_with_a_chance_of_five_percent_at_most(gate, name, days, plain):
    """Of 40,000 nights 5.5 may, at the year's level; the plain t test promotes on 20 times as many and more."""
    fixed, student, found = gate.false_nights(gate.DISTRIBUTIONS[name], days, 40_000)
    assert fixed > 1_500 and student >= plain
    assert found <= 8  # 1 chance in 6 to be more at the level itself


def test_nights_of_few_days_are_not_decided(gate):
    assert gate.false_nights(gate.DISTRIBUTIONS["-exponential, skewness -2"], 10, 20_000)[2] == 0


def test_days_that_are_unequal_or_shared_by_users_promote_no_more(gate, capsys):
    sizes = lambda random, shape: random.standard_exponential(shape) ** 2  # noqa: E731
    assert gate.false_nights(gate.DISTRIBUTIONS["normal"], 31, 20_000, sizes)[2] <= 5
    gate.two_ways(20_000)
    by_day, _, found = (float(cell.strip(" %")) for cell in capsys.readouterr().out.splitlines()[-1].split("|")[2:5])
    assert by_day > 50 and found <= 20  # 2,000 nights: 1 of them is 17 % of a year


def test_with_overlapping_windows_and_drift_hardly_any_year_is_wrong_and_a_gain_is_found_soon(gate):
    normal, name = gate.DISTRIBUTIONS["normal"], "**gate**, every night"
    for drift in (0.0, 0.2):
        wrong = gate.false_years(20, drift, normal)
        assert wrong[name] <= 0.1 and wrong["t, 5% every night"] >= 0.5
    assert float(gate.waits(20, 1.25)[name]) <= 7
