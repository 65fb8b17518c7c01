import hashlib
import multiprocessing
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vgp.base.exits import UserError
from vgp.data import rows
from vgp.data.prepare import prepare
from vgp.data.rows import Shards, open_rows, read_rows, read_sample, recode
from vgp.protocol import manifest
from vgp.protocol.manifest import Column, ShardFile

from .conftest import visit_rows


@pytest.fixture
def dataset(visits_module, write_csv, tmp_path) -> Path:
    path = write_csv(visit_rows())
    prepare(f"{visits_module}:Visits", str(path), tmp_path / "data", workers=1)
    return tmp_path / "data"


def test_rows_are_those_of_the_files_in_order(dataset: Path):
    found = open_rows(dataset, "train")
    table = pq.read_table(dataset / "train-00000.parquet")
    assert len(found) == table.num_rows == manifest.load(dataset).rows("train")
    for name in table.column_names:
        np.testing.assert_array_equal(found.columns[name], table[name].to_numpy())
    index = np.array([5, 0, 5, len(found) - 1])
    for name, column in found.take(index).items():
        np.testing.assert_array_equal(column, table[name].to_numpy()[index])


def test_columns_have_the_types_that_training_expects(dataset: Path):
    columns = open_rows(dataset, "test").columns
    kinds = {name: array.dtype.name for name, array in columns.items()}
    assert kinds == {"row_id": "int64", "_day": "int32", "page": "int32", "seconds": "float32", "label": "int64"}


def test_shards_give_the_same_rows_in_batches_of_any_size(dataset: Path):
    """Batches may be smaller and larger than a shard, and begin in one and end in the next."""
    made = manifest.load(dataset)
    split = dataset / "train-00000.parquet"
    whole = pq.read_table(split)
    for number, part in enumerate((whole.slice(0, 3), whole.slice(3, 0), whole.slice(3, 40), whole.slice(43))):
        pq.write_table(part, dataset / f"part-{number}.parquet")
    files = [dataset / f"part-{number}.parquet" for number in range(4)]
    shards = tuple(
        ShardFile(
            path=file.name,
            rows=pq.read_metadata(file).num_rows,
            bytes=file.stat().st_size,
            sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        )
        for file in files
    )
    rows = Shards(dataset, made.model_copy(update={"splits": {"train": shards}}), "train")
    expected = {name: whole[name].to_numpy() for name in whole.column_names}
    for size in (1, 2, 7, 40, len(whole), len(whole) + 1):
        batches = list(rows.batches(size))
        assert [len(batch["row_id"]) for batch in batches[:-1]] == [size] * (len(batches) - 1)
        for name, values in expected.items():
            np.testing.assert_array_equal(np.concatenate([batch[name] for batch in batches]), values)
    index = np.array([0, 2, 3, 42, 43, len(whole) - 1])
    for name, values in rows.take(index).items():
        np.testing.assert_array_equal(values, expected[name][index])
        np.testing.assert_array_equal(rows.column(name), expected[name])
    files[2].write_bytes(files[2].read_bytes()[::-1])
    with pytest.raises(UserError, match="checksum of the manifest"):
        list(rows.batches(7))


def open_and_sum(dataset: Path, scratch: Path, start, results) -> None:
    tempfile.tempdir = str(scratch)
    rows.IN_MEMORY_BYTES = 0
    start.wait()
    results.put({name: float(np.nansum(c)) for name, c in open_rows(dataset, "train").columns.items()})


def test_large_data_is_decoded_once_and_shared_by_processes_that_start_together(dataset: Path, tmp_path: Path):
    context = multiprocessing.get_context("fork")
    start, results = context.Barrier(3), context.Queue()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    workers = [context.Process(target=open_and_sum, args=(dataset, scratch, start, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    sums = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    in_memory = open_rows(dataset, "train")
    assert sums == [{name: float(np.nansum(c)) for name, c in in_memory.columns.items()}] * 3
    assert len([path for path in scratch.glob("*/*") if path.is_dir()]) == 1


def test_mapped_rows_are_equal_and_survive_a_build_that_was_cut_short(dataset: Path, tmp_path, monkeypatch):
    expected = open_rows(dataset, "test").columns
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(rows, "IN_MEMORY_BYTES", 0)
    decoded = rows._decode

    def dies(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(rows, "_decode", dies)
    with pytest.raises(KeyboardInterrupt):
        open_rows(dataset, "test")
    monkeypatch.setattr(rows, "_decode", decoded)
    mapped = open_rows(dataset, "test").columns
    for name, column in expected.items():
        np.testing.assert_array_equal(mapped[name], column)
    assert all(isinstance(column, np.memmap) for column in mapped.values())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-9]), "bytes, but the manifest has"),
        (lambda path: path.write_bytes(path.read_bytes()[:-9] + b"x" * 9), "checksum of the manifest"),
        (lambda path: path.unlink(), "cannot be read: No such file"),
    ],
    ids=["cut off", "changed", "lost"],
)
def test_a_damaged_shard_is_refused_by_name(dataset: Path, damage, message):
    damage(dataset / "test-00000.parquet")
    with pytest.raises(UserError, match=f"test-00000.parquet.*{message}"):
        open_rows(dataset, "test")


def rewrite(dataset: Path, table: pa.Table, **changes) -> None:
    """Another file for the test split, under a manifest that speaks for it."""
    pq.write_table(table, dataset / "test-00000.parquet")
    data, made = (dataset / "test-00000.parquet").read_bytes(), manifest.load(dataset)
    (shard,) = made.splits["test"]
    entry = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), **changes}
    splits = {**made.splits, "test": (shard.model_copy(update=entry),)}
    manifest.save(made.model_copy(update={"splits": splits}), dataset)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (None, "has seconds as None, but the manifest has float"),
        (["x"], "has seconds as string, but the manifest has float"),
        ([0.5], "has seconds as double, but the manifest has float"),
        ([[0.5, 0.5]], r"has seconds as list<.*>, but the manifest has float"),
    ],
    ids=["missing", "words", "another number", "a list"],
)
def test_a_shard_with_columns_that_differ_from_the_manifest_is_refused(dataset: Path, column, message):
    table = pq.read_table(dataset / "test-00000.parquet")
    position = table.column_names.index("seconds")
    other = table.remove_column(position)
    if column is not None:
        other = table.set_column(position, "seconds", pa.array(column * len(table)))
    rewrite(dataset, other)
    with pytest.raises(UserError, match=f"test-00000.parquet {message}"):
        open_rows(dataset, "test")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("page", pa.array([99], pa.int32()), "holds codes of page beyond its 4 values"),
        ("label", pa.array([-1], pa.int64()), "holds codes of label beyond its 2 values"),
        ("row_id", pa.array([None], pa.int64()), "lacks values of row_id"),
    ],
)
def test_a_shard_of_values_that_cannot_be_is_refused(dataset: Path, name, values, message):
    table = pq.read_table(dataset / "test-00000.parquet")
    rest = table[name].combine_chunks()[1:]
    rewrite(dataset, table.set_column(table.column_names.index(name), name, pa.concat_arrays([values, rest])))
    with pytest.raises(UserError, match=f"test-00000.parquet {message}"):
        open_rows(dataset, "test")


@pytest.mark.parametrize("damage", [b"PAR1", b"\x0f", bytes(40)])
def test_a_shard_whose_footer_is_damaged_is_refused_in_one_line(dataset: Path, damage):
    """A change on purpose: its checksum fits."""
    rewrite(dataset, pq.read_table(dataset / "test-00000.parquet"))
    path = dataset / "test-00000.parquet"
    data = path.read_bytes()[: -60 - len(damage)] + damage + path.read_bytes()[-60:]
    path.write_bytes(data)
    made = manifest.load(dataset)
    entry = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    splits = {**made.splits, "test": (made.splits["test"][0].model_copy(update=entry),)}
    manifest.save(made.model_copy(update={"splits": splits}), dataset)
    with pytest.raises(UserError, match=r"^[^\n]*test-00000.parquet [^\n]*$"):
        open_rows(dataset, "test")


def test_a_shard_with_rows_that_differ_from_the_manifest_is_refused(dataset: Path):
    table = pq.read_table(dataset / "test-00000.parquet")
    rewrite(dataset, table.slice(1))
    with pytest.raises(UserError, match=f"has {len(table) - 1} rows, but the manifest has {len(table)}"):
        open_rows(dataset, "test")


def test_a_shard_that_would_fill_the_memory_is_refused_before_it_is_decoded(dataset: Path, monkeypatch):
    """A few kilobytes of runs stand for as many rows as one likes."""
    table = pq.read_table(dataset / "test-00000.parquet").slice(0, 1)
    monkeypatch.setattr(rows, "MOST_SHARD_BYTES", 1 << 20)
    rewrite(dataset, pa.concat_tables([table] * 50_000).combine_chunks(), rows=50_000)
    with pytest.raises(UserError, match="test-00000.parquet needs 1 MiB of memory; the limit is 1"):
        open_rows(dataset, "test")


def test_a_type_that_is_none_is_refused(dataset: Path):
    made = manifest.load(dataset)
    columns = tuple(c.model_copy(update={"type": "object"}) if c.name == "seconds" else c for c in made.columns)
    manifest.save(made.model_copy(update={"columns": columns}), dataset)
    with pytest.raises(UserError, match="names the type 'object'"):
        open_rows(dataset, "test")


def test_an_unknown_split_and_an_unfinished_dataset_are_refused(dataset: Path, tmp_path: Path):
    with pytest.raises(UserError, match="has no split 'tset'; it has test, train, validation"):
        open_rows(dataset, "tset")
    with pytest.raises(UserError, match=r"has no manifest.json"):
        open_rows(tmp_path, "train")


def test_vectors_come_as_matrices_of_their_element_type():
    column = Column(name="x", kind="vector", type="fixed_size_list<element: double>[3]", width=3)
    assert (rows._find_shape(column, 5), rows.dtype(column)) == ((5, 3), np.float64)
    column = Column(name="x", kind="vector", type="fixed_size_list<item: uint8 not null>[3]", width=3)
    assert rows.dtype(column) == np.uint8
    column = Column(name="x", kind="vector", type="fixed_size_binary[7]", width=7)
    assert (rows._find_shape(column, 5), rows.dtype(column)) == ((5, 7), np.uint8)


def test_codes_are_translated_by_value_and_what_the_model_never_saw_is_missing():
    def column(values, counts):
        return Column(name="page", kind="category", type="int32", values=values, counts=counts)

    data = column(("", "a", "b", "c", "d"), (0, 9, 9, 9, 9))
    model = column(("", "b", "c", "d"), (1, 5, 0, 7))  # c: in its test split only
    codes = recode(np.array([0, 1, 2, 3, 4], np.int32), data, model)
    assert (codes.tolist(), codes.dtype) == ([0, 0, 1, 0, 3], np.int32)


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
