import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.base.exits import UserError
from vgp.data.columns import category_values, elements, fixed_width, sketches

NUMBERS = st.floats(-1e6, 1e6, width=32) | st.none()


def whole_and_parts(values: list, kind: pa.DataType, cut: int):
    def sketch(part):
        return sketches(fixed_width(pa.table({"x": pa.array(part, kind)}), "label"), "label", train=True)["x"]

    merged = sketch(values[:cut])
    merged.merge(sketch(values[cut:]))
    return sketch(values), merged


@given(st.lists(NUMBERS, max_size=40), st.integers(0, 40))
def test_figures_of_parts_merge_to_those_of_the_whole(values, cut):
    whole, merged = whole_and_parts(values, pa.float32(), cut)
    column, again = whole.column("x", ()), merged.column("x", ())
    assert (column.count, column.missing, column.minimum, column.maximum) == (
        again.count, again.missing, again.minimum, again.maximum,
    )  # fmt: skip
    assert again.mean == pytest.approx(column.mean, abs=1e-6, rel=1e-9)
    assert again.std == pytest.approx(column.std, rel=1e-6)
    known = [np.float64(np.float32(v)) for v in values if v is not None]
    assert column.count == len(known) and column.missing == len(values) - len(known)
    if known:
        assert column.mean == pytest.approx(np.mean(known), abs=1e-6)


@given(st.lists(st.sampled_from(["", "b", "a", "c"]) | st.none(), max_size=20), st.integers(0, 20))
def test_categories_keep_all_values_and_code_zero_is_missing(values, cut):
    whole, merged = whole_and_parts(values, pa.string(), cut)
    column = merged.column("x", ())
    assert column == whole.column("x", ())
    assert column.values == ("", *sorted({v for v in values if v}))
    given_as_empty = [v or "" for v in values]
    assert column.counts == tuple(given_as_empty.count(v) for v in column.values)


def test_other_splits_add_values_but_no_counts():
    table = fixed_width(pa.table({"x": ["new"], "n": [5.0], "label": [1]}), "label")
    found = sketches(table, "label", train=False)
    assert found["x"].column("x", ()).counts == (0, 0)
    assert category_values(found["x"].counts) == ("", "new")
    assert (found["n"].count, found["label"].column("label", ("no", "yes")).counts) == (0, (0, 0))


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array([1, None]), "missing in 1 rows"),
        (pa.array([[1], [1, 2]]), "has no fixed width"),
        (pa.array([b"x"]), "has no fixed width"),
        (pa.array([0], pa.date32()), "has no fixed width"),
    ],
)
def test_columns_without_a_fixed_width_are_refused(array, message):
    with pytest.raises(UserError, match=message):
        fixed_width(pa.table({"x": array}), "label")


def test_the_least_and_the_greatest_of_zeros_have_one_sign():
    for zeros in ([-0.0, 0.0], [0.0, -0.0], [-0.0] * 9):
        column = whole_and_parts(zeros, pa.float32(), 1)[1].column("x", ())
        assert (str(column.minimum), str(column.maximum)) == ("0.0", "0.0")


def test_infinite_numbers_are_refused():
    with pytest.raises(UserError, match="column x holds infinite values"):
        sketches(fixed_width(pa.table({"x": [1.0, float("inf")]}), "label"), "label", train=True)


def test_numbers_are_decoded_without_pandas_which_every_process_would_import_anew():
    code = (
        "import sys, pyarrow as pa\n"
        "from vgp.data.columns import elements\n"
        "numbers = pa.Array.from_buffers(pa.int32(), 3, [None, pa.py_buffer(bytes(range(12)))])\n"
        "assert elements(numbers).dtype == 'int32' and elements(numbers.slice(1)).tolist()[0] == 0x07060504\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_vectors_become_matrices():
    lists = pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.float32(), 2))
    assert elements(lists.slice(1)).tolist() == [[3, 4], [5, 6]]
    binary = pa.array([b"ab", b"cd", b"ef"], pa.binary(2))
    assert elements(binary.slice(1, 2)).tolist() == [[99, 100], [101, 102]]
    column = sketches(pa.table({"x": lists}), "label", train=True)["x"].column("x", ())
    assert (column.kind, column.width, column.mean, column.count) == ("vector", 2, 3.5, 6)


@pytest.mark.parametrize("kind", [pa.list_(pa.int32(), 4), pa.binary(4)])
def test_a_split_without_rows_keeps_the_width_of_its_vectors(kind):
    assert elements(pa.array([], kind)).shape == (0, 4)
