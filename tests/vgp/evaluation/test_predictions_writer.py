import numpy as np
import pytest

from vgp.base.exits import UserError
from vgp.evaluation.predictions import MISSING
from vgp.evaluation.predictions_writer import group_namer, namer
from vgp.protocol.manifest import Column


def named(column, values):
    names = namer(column, lambda: values)(values)
    return [names.values[code] for code in names.codes]


def test_categories_are_named_by_their_values():
    column = Column(name="c", kind="category", type="int32", values=("", "blue", "red"))
    assert named(column, np.array([2, 0, 1])) == ["red", MISSING, "blue"]


def test_few_numbers_keep_their_value_and_missing_ones_are_marked():
    column = Column(name="n", kind="number", type="float")
    assert named(column, np.array([3.5, np.nan, 2.0, 3.5])) == ["3.5", MISSING, "2", "3.5"]


def test_many_numbers_become_five_ranges_of_equal_mass():
    column, values = Column(name="n", kind="number", type="float"), np.r_[np.arange(100.0), np.nan]
    found, counts = np.unique(named(column, values), return_counts=True)
    assert dict(zip(found, counts, strict=True))["0 to 19.8"] == 20
    assert len(found) == 6 and MISSING in found


def test_a_group_keeps_every_value_apart():
    """Those of one batch at a time, and all digits of an id."""
    for first, kind in ((15_000, np.int32), ((1 << 62) + 1, np.int64)):
        values = np.arange(first, first + 365, dtype=kind)[::-1]
        names = group_namer(Column(name="day", kind="id", type=str(values.dtype)))(values)
        assert [names.values[code] for code in names.codes] == [str(value) for value in values.tolist()]
    numbers = np.array([0.1, np.nan, 2.0, np.nextafter(np.float32(0.1), 1)], np.float32)
    names = group_namer(Column(name="n", kind="number", type="float"))(numbers)
    assert [names.values[code] for code in names.codes] == ["0.1", MISSING, "2", "0.10000001"]


def test_a_batch_is_named_like_the_whole():
    column, values = Column(name="n", kind="number", type="float"), np.arange(100.0)
    of_column = namer(column, lambda: values)
    assert of_column(values[60:70]).values == of_column(values).values
    np.testing.assert_array_equal(of_column(values[60:70]).codes, of_column(values).codes[60:70])


def test_a_vector_names_nothing():
    with pytest.raises(UserError, match="pixels is a vector"):
        namer(Column(name="pixels", kind="vector", type="float", width=4), lambda: np.zeros((3, 4)))
    with pytest.raises(UserError, match="pixels is a vector"):
        group_namer(Column(name="pixels", kind="vector", type="float", width=4))
