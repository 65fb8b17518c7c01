import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vgp.data.rows import read_rows, read_sample
from vgp.protocol import manifest
from vgp.protocol.manifest import Column, ShardFile


@pytest.fixture
def split(tmp_path):
    """The folder, the files and the columns of a split of 20 shards with 60 rows each, and all its rows' ids."""
    import coins

    data = manifest.load(coins.dataset(tmp_path))
    column = [data.column("row_id")]
    return tmp_path, data.splits["train"], column


def test_a_sample_of_large_shards_spans_all_of_them(split):
    found = read_sample(*split, 40)["row_id"]
    assert 30 < len(found) <= 40 and found.min() < 1_000 and found.max() >= 19_000


def test_a_sample_of_more_rows_than_there_are_is_all_of_them(split):
    found = read_sample(*split, 1_200)["row_id"]
    assert len(np.unique(found)) == len(found) == 1_200


def test_rows_are_found_by_their_numbers_in_the_order_that_was_asked_for(split):
    whole = read_sample(*split, 10_000)["row_id"]
    rows = np.array([700, 3, 3, 1_199, 60])
    assert read_rows(*split, rows)["row_id"].tolist() == whole[rows].tolist()


def test_all_rows_are_taken_of_shards_of_any_sizes(tmp_path):
    column, files = Column(name="row_id", kind="id", type="int64"), []
    for name, ids in {"a": range(10), "b": range(10, 100)}.items():
        path = tmp_path / f"{name}.parquet"
        pq.write_table(pa.table({"row_id": pa.array(ids, pa.int64())}), path)
        files.append(ShardFile(path=path.name, rows=len(ids), bytes=path.stat().st_size, sha256=""))
    assert read_sample(tmp_path, files, [column], 100)["row_id"].tolist() == list(range(100))
    assert len(read_sample(tmp_path, files, [column], 40)["row_id"]) == 30
