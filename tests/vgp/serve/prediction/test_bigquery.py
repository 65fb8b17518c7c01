"""Predictions in a table of BigQuery, on loopback: Google's client, and what it asks for."""

import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers.run_wing import forget_client
from vgp.base.exits import UserError
from vgp.base.storage.bigquery.names import TableName
from vgp.serve.prediction import output_shards
from vgp.serve.prediction.prediction_folder import PredictionFolder, PredictionManifest, PredictionRequest, WrittenFile
from vgp.steps import prediction as step

TABLE = TableName("test-project", "shop", "predicted")


@pytest.fixture
def written(cloud, monkeypatch):
    """Two shards in a bucket of the cloud, and their manifest."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", cloud.storage.upstream())
    forget_client()
    folder = PredictionFolder("gs://test-bucket/predictions/one")
    for number in range(2):
        rows = {"row_id": [2 * number, 2 * number + 1], "model": ["m"] * 2, "model_version": [3] * 2, "run": ["r"] * 2}
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(rows), sink)
        assert folder.commit(f"predictions-{number:05}.parquet", sink.getvalue().to_pybytes())
    shards = tuple(WrittenFile(name=name, rows=2, bytes=1, crc32c=1) for name in folder.names())
    asked = PredictionRequest(weights={}, task="m:T", rows=4, shards=(2, 2))
    yield folder, PredictionManifest(request=asked, columns={}, shards=shards, files=())
    monkeypatch.undo()
    forget_client()


def rows(cloud):
    return sorted(
        cloud.bigquery.table(dict(projectId="test-project", datasetId="shop", tableId="predicted"))
        .latest.rows["row_id"]
        .to_pylist()
    )


def test_a_load_that_is_repeated_or_whose_answer_was_lost_doubles_no_row(cloud, written):
    folder, manifest = written
    output_shards.check_table(TABLE, folder.path)
    output_shards.load_table(folder, manifest, TABLE)
    assert rows(cloud) == [0, 1, 2, 3]
    output_shards.check_table(TABLE, folder.path)
    output_shards.load_table(folder, manifest, TABLE)
    assert rows(cloud) == [0, 1, 2, 3]
    names = sorted(cloud.bigquery.jobs)
    assert [name[-2:] for name in names] == ["-0", "-1"] and len({name[:-2] for name in names}) == 1


def test_a_table_of_something_else_is_not_replaced(cloud, written, warehouse):
    folder, manifest = written
    cloud.bigquery.write(str(TABLE), warehouse.parcels(5))
    with pytest.raises(
        UserError, match="predicted holds other data, with the columns id, code, .*and would be replaced"
    ):
        output_shards.check_table(TABLE, folder.path)
    with pytest.raises(
        UserError, match="BigQuery loads predictions from a bucket, and /tmp/x is on this machine. Set stag"
    ):
        output_shards.check_table(TABLE, "/tmp/x")
    with pytest.raises(UserError, match="the dataset test-project.nowhere does not exist"):
        output_shards.check_table(TableName("test-project", "nowhere", "t"), folder.path)


def test_a_table_without_a_place_for_its_shards_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(step, "THREADS", {})  # it sets variables of this process
    with pytest.raises(UserError, match=rf"destination = {TABLE.uri}: BigQuery loads predictions from a bucket. Set s"):
        step.predict.__wrapped__(model="m", task="flights", destination=TABLE.uri)


def test_a_job_that_a_kill_left_running_is_waited_for(cloud, written):
    folder, manifest = written
    cloud.bigquery.held = True
    uris = [f"{folder.path}/{name}" for name in folder.names()]
    assert (
        output_shards.find_or_start_job(TABLE, uris, f"{output_shards.job_name(manifest, TABLE)}-0").state == "RUNNING"
    )
    threading.Timer(0.3, cloud.bigquery.release).start()
    output_shards.load_table(folder, manifest, TABLE)
    assert len(cloud.bigquery.jobs) == 1 and rows(cloud) == [0, 1, 2, 3]
