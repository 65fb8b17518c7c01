"""What the embedded engine keeps of the rows that it reads."""

import ibis
import pyarrow as pa
import pytest

from tests.vgp.data.computed import Rows
from vgp.data.engines.duckdb import DuckDB
from vgp.data.schema import Field


def test_what_is_made_of_a_row_alone_is_kept_and_what_looks_at_others_is_not(tmp_path):
    """A batch is not all rows."""

    def derived(rows, dialect):
        latest = rows.n.max().over(ibis.window(group_by=rows.k))
        return {"twice": rows.n * 2, "latest": latest, "of all": rows.n - rows.n.mean()}

    rows = Rows(pa.table({"k": [1, 1, 1], "n": [1, 2, 3]}), batch_rows=2)
    with DuckDB.open(tmp_path, 256 << 20, 2) as engine:
        engine.read_files(rows, (Field("k", pa.int64()), Field("n", pa.int64())), {}, derived)
        source = engine.source()
        assert source.columns == ("k", "n", "_file", "_record", "twice")
        assert engine.read(source.order_by("n").select("twice"))["twice"].to_pylist() == [2, 4, 6]


def test_a_name_that_is_given_again_stands_for_what_it_was_given_last(tmp_path):
    rows = Rows(pa.table({"n": [1, 2, 3]}))
    with DuckDB.open(tmp_path, 256 << 20, 2) as engine:
        engine.read_files(rows, (Field("n", pa.int64()),))
        source, sums = engine.source(), []
        for most in (1, 3):
            named = engine.create_view("rows", source.filter(source.n <= most))
            sums.append(engine.read(engine.create("sum", named.agg(n=named.n.sum())))["n"].to_pylist())
        assert sums == [[1], [6]]


@pytest.mark.parametrize(("places", "few"), [(8, True), (1000, False)])
def test_rows_are_few_by_columns_that_most_of_them_share(tmp_path, places, few):
    rows = Rows(pa.table({"place": [f"p{i % places}" for i in range(1000)], "hour": [i % 5 for i in range(1000)]}))
    with DuckDB.open(tmp_path, 256 << 20, 2) as engine:
        engine.read_files(rows, (Field("place", pa.string()), Field("hour", pa.int64())))
        assert engine.has_few_values(engine.source(), ["place", "hour"]) is few
