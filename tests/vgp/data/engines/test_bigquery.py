"""BigQuery as an engine: the same rows as here, and every refusal in words and before it costs."""

import os
import signal
from dataclasses import replace
from decimal import Decimal

import ibis
import numpy as np
import pyarrow as pa
import pytest

from vgp.base.engine_settings import BigQuery as Settings
from vgp.base.exits import StoreDown, UserError
from vgp.base.storage.bigquery.jobs import Jobs, Owner
from vgp.base.storage.bigquery.lookup import Lookup
from vgp.data.engines.bigquery import BigQuery
from vgp.data.engines.bigquery_source import open_table_rows
from vgp.data.events import Events
from vgp.data.prepare import prepare
from vgp.data.schema import Field
from vgp.data.tables import features as asked_features
from vgp.data.tables import task_methods
from vgp.protocol.pins import Request
from vgp.steps.pins import request

OWNER = Owner("training-20260101", "prepare")


@pytest.fixture
def prepared(warehouse, tmp_path, monkeypatch):
    """Prepares `data` of the parcels; the rows of each split."""

    def run(data=warehouse.URI, *, name="made", options=None, **settings):
        import json

        monkeypatch.setenv("PREPARE_ENGINES", json.dumps({"bigquery": settings}))
        options = {**warehouse.WINDOWS, **(options or {})}
        run.manifest = prepare(warehouse.TASK, str(data), tmp_path / name, options=options)
        return warehouse.prepared(tmp_path / name)

    return run


@pytest.fixture
def plain(warehouse, monkeypatch):
    """Parcels without events: their windows take most of the time of a preparation."""
    monkeypatch.setattr(warehouse.Parcels, "events", lambda self, rows: {})
    monkeypatch.setattr(warehouse.Parcels, "features", lambda self, rows: {"w": rows.weight, "city": rows.city})


def same(here, there):
    """Rows, ids, splits, texts and labels are equal; floats differ by at most 1e-6 of their size, as float32."""
    assert here.keys() == there.keys()
    for split, rows in here.items():
        assert rows.num_rows == there[split].num_rows > 0
        for name in rows.column_names:
            first, second = rows[name].to_numpy(), there[split][name].to_numpy()
            if first.dtype.kind == "f":
                np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-9, equal_nan=True, err_msg=name)
            else:
                np.testing.assert_array_equal(first, second, err_msg=name)


def test_tables_views_queries_and_mixed_lists_give_the_rows_that_files_give(cloud, warehouse, prepared, tmp_path):
    rows = warehouse.parcels()
    expected = prepared(warehouse.write(tmp_path, rows), name="files")
    upper = rows.rename_columns([name.upper() for name in rows.column_names])  # BigQuery takes both for the same
    cloud.bigquery.write(warehouse.TABLE, upper, at=warehouse.days_ago(cloud, 30))
    (tmp_path / "half.sql").write_text(f"SELECT p.* FROM `{warehouse.TABLE}` p WHERE p.id >= 0 ORDER BY id LIMIT 10000")
    (tmp_path / "rest.sql").write_text(f"WITH p AS (SELECT * FROM `{warehouse.TABLE}`) SELECT * FROM p WHERE id < 0;\n")
    queries = f"{tmp_path}/half.sql, {tmp_path}/rest.sql"
    same(expected, prepared(warehouse.URI, name="table"))
    assert len(prepared.manifest.sources) == 1 and prepared.manifest.rows_read == 600
    same(expected, prepared(queries, name="queries"))
    few = warehouse.write(tmp_path / "few", rows.filter(pa.compute.less(rows["id"], 0)))
    mixed = f"{few},{tmp_path}/half.sql"
    same(expected, prepared(mixed, name="mixed", options={"engine": "duckdb"}))
    with pytest.raises(
        UserError, match="files .*parcels.parquet.* and tables of BigQuery .*half.sql.*engine to duckdb"
    ):
        prepared(mixed, name="refused")
    with pytest.raises(UserError, match="'bigquery', which cannot read files"):
        prepared(few, name="refused", options={"engine": "bigquery"})
    with pytest.raises(UserError, match="engine is 'bigqery'.*bigquery"):
        prepared(few, name="refused", options={"engine": "bigqery"})
    assert not (tmp_path / "refused").exists()


def test_jobs_are_labelled_limited_and_leave_nothing_behind(cloud, warehouse, prepared, plain, capsys):
    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels())
    prepared(max_gb=2.0, expiry_days=3)
    jobs = list(cloud.bigquery.jobs.values())
    assert jobs and all(job.location == "EU" for job in jobs)
    assert {job.labels["step"] for job in jobs} == {"prepare"} and all(job.labels["run"] for job in jobs)
    assert all(0 < int(job.configuration["query"]["maximumBytesBilled"]) <= 2 << 30 for job in jobs)
    ours = cloud.bigquery.datasets[("test-project", "vertex_gpu_pipelines")]
    assert ours.location == "EU" and int(ours.fields["defaultTableExpirationMs"]) == 3 * 86_400_000
    assert not list(cloud.bigquery.in_dataset("test-project", "vertex_gpu_pipelines"))
    printed = capsys.readouterr().err
    assert f"BigQuery: reading {warehouse.URI} once takes 37 kB (less than a cent)." in printed
    assert "the queries of this step read" in printed


def replaced(name, values):
    def change(warehouse, rows):
        return warehouse.changed(rows, **{name: values(rows)})

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w, t: t.rename_columns([{"weight": "wieght"}.get(n, n) for n in t.column_names]),
         "lacks the column weight; it has .*Is 'wieght' meant to be 'weight'?"),
        (replaced("weight", lambda t: t["weight"].cast(pa.string())),
         "column weight has BigQuery's type STRING.* double, which is FLOAT64 there.*CAST"),
        (replaced("sent", lambda t: t["local"]), "column sent .*DATETIME"),
        (replaced("express", lambda t: pa.array([None if i == 7 else i % 2 == 0 for i in range(len(t))])),
         "a row of bq://test-project.shop.parcels with id=.*: column express is empty"),
        (replaced("floor", lambda t: pa.array([40_000 if i == 9 else 1 for i in range(len(t))])),
         "column floor: 40000 is not of type int16"),
        (lambda w, t: t.slice(0, 0), "bq://test-project.shop.parcels: there are no rows"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["bigquery", "duckdb"])
def test_a_table_that_is_not_as_declared_is_reported_with_column_and_fix(
    cloud, warehouse, prepared, tmp_path, change, words, engine
):
    if engine == "duckdb" and "40000" in words:
        words = "column floor"
    cloud.bigquery.write(warehouse.TABLE, change(warehouse, warehouse.parcels(40)))
    with pytest.raises(UserError, match=words):
        prepared(options={"engine": engine})
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (pa.float32(), [0.5, -3 * 2.0**120, 2.0**24, 1 / 1024, 0.0], [0.1, 2.0**24 + 1, 1e39]),
        (pa.decimal128(10, 2), [0.12, -1.15, 99_999_999.99, 0.0], [0.125, 1e8, 3.0000001]),
    ],
    ids=str,
)
def test_a_number_that_files_would_round_is_refused(
    cloud, warehouse, prepared, plain, tmp_path, monkeypatch, kind, good, bad
):
    declared = tuple(replace(f, type=kind) if f.name == "weight" else f for f in warehouse.Parcels.schema)
    monkeypatch.setattr(warehouse.Parcels, "schema", declared)
    rows = warehouse.parcels(600)
    weight = pa.array([good[i % len(good)] for i in range(600)])
    kept, typed = warehouse.changed(rows, weight=weight), warehouse.changed(rows, weight=weight.cast(kind))
    cloud.bigquery.write(warehouse.TABLE, kept)
    same(prepared(warehouse.write(tmp_path, typed), name="files"), prepared())
    for value in bad:
        wrong = pa.array([value if i == 9 else 0.5 for i in range(600)])
        cloud.bigquery.write(warehouse.TABLE, warehouse.changed(rows, weight=wrong))
        with pytest.raises(UserError, match=r"column weight: .* is not of type .*pa.float64\(\)"):
            prepared(name="refused")


def test_a_decimal_that_is_streamed_here_is_not_rounded(cloud, warehouse, prepared, monkeypatch):
    declared = [replace(f, type=pa.decimal128(10, 2)) if f.name == "weight" else f for f in warehouse.Parcels.schema]
    monkeypatch.setattr(warehouse.Parcels, "schema", tuple(declared))
    exact = pa.array([Decimal("0.125")] * 40, pa.decimal128(38, 9))
    cloud.bigquery.write(warehouse.TABLE, warehouse.changed(warehouse.parcels(40), weight=exact))
    with pytest.raises(UserError, match="column weight: .*loss"):
        prepared(options={"engine": "duckdb"})


@pytest.mark.parametrize(
    ("data", "prepare_cloud", "words"),
    [
        ("bq://test-project.shop.nothing", None, "bq://test-project.shop.nothing does not exist: Not found: Table"),
        ("bq://test-project.other.parcels", None, "does not exist"),
        ("", lambda cloud: cloud.policies.missing.add("bigquery.tables.get"), "may not be read.*bigquery.dataViewer"),
        ("", lambda cloud: cloud.policies.missing.add("bigquery.tables.getData"), "may not be read: Access Denied"),
        ("", lambda cloud: cloud.policies.missing.add("bigquery.jobs.create"), "may not be read.*roles/bigquery.user"),
        ("bq://shop.parcels", None, "The project is missing: bq://PROJECT.shop.parcels"),
        ("bq://test-project.shop", None, "The table is missing: bq://test-project.shop.TABLE"),
    ],
)  # fmt: skip
def test_data_that_is_missing_or_unreadable_is_reported_before_anything_runs(
    cloud, warehouse, prepared, tmp_path, data, prepare_cloud, words
):
    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(40))
    if prepare_cloud:
        prepare_cloud(cloud)
    with pytest.raises(UserError, match=words):
        prepared(data or warehouse.URI)
    assert not cloud.bigquery.jobs and not (tmp_path / "made").exists()


def test_a_feature_that_bigquery_cannot_compute_is_named_with_its_row(cloud, warehouse, prepared, plain, monkeypatch):
    def features(self, rows):
        return {"city": rows.city, "number": rows.code.cast("int64")}

    monkeypatch.setattr(warehouse.Parcels, "features", features)
    codes = [*map(str, range(19)), "none"]
    cloud.bigquery.write(warehouse.TABLE, warehouse.changed(warehouse.parcels(20), code=pa.array(codes)))
    words = r"Parcels.features: number cannot be computed for a row of bq://\S+ with id=.*, code=none.*try_cast"
    with pytest.raises(UserError, match=words):
        prepared()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("features", lambda method: lambda self, rows: {"city": rows.city, "weight (kg)": rows.weight},
         r"the name of the feature 'weight \(kg\)' holds '\(', which a column of BigQuery cannot. Rename it"),
        ("features", lambda method: lambda self, rows: {"city": rows.city, "_TABLE_x": rows.weight},
         "the feature '_TABLE_x' begins with _TABLE_, which is BigQuery's own"),
        ("features", lambda method: lambda self, rows: {"city": rows.city, "x" * 301: rows.weight},
         "is longer than the 300 letters"),
        ("label", lambda method: "late?", r"the name of the label 'late\?' holds '\?'"),
        ("schema", lambda method: (*method, Field("a.b", pa.string(), optional=True)), "the column 'a.b' holds '.'"),
        ("events", lambda method: lambda self, rows: {**(one := method(self, rows)), "e$": one["sent"]},
         r"the name of the events 'e\$' holds"),
    ],
)  # fmt: skip
def test_a_name_that_bigquery_gives_no_column_is_refused_before_anything_runs(
    cloud, warehouse, prepared, tmp_path, monkeypatch, name, change, message
):
    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(40))
    monkeypatch.setattr(warehouse.Parcels, name, change(getattr(warehouse.Parcels, name)))
    with pytest.raises(UserError, match=message):
        prepared()
    assert not cloud.bigquery.jobs and not (tmp_path / "made").exists()
    asked = Request(data=warehouse.URI, task=warehouse.TASK, task_options={}, champion="")
    with pytest.raises(UserError, match=message):
        request.check(warehouse.Parcels(warehouse.WINDOWS), asked, as_of="", pins="")
    request.check(warehouse.Parcels({**warehouse.WINDOWS, "engine": "duckdb"}), asked, as_of="", pins="")


def test_expressions_that_bigquery_may_compute_differently_are_reported_for_every_method(warehouse, monkeypatch):
    def events(self, rows):
        left = rows.mutate(hour=rows.sent.epoch_seconds() // 3600, city=rows.city.upper())
        return {"sent": Events(left, ("city",), ((3, 1),))}

    def features(self, rows):
        return {"city": rows.city, "code": rows.code.lower(), "busy": rows.sent_count_3_1}

    def labels(self, rows):
        return (rows.city.reverse() == "nöl").ifelse(1, rows.late.cast("int64"))

    def days(self, rows):
        return (rows.code.upper() == "x").ifelse(rows.day, rows.day)

    for method in (events, features, labels, days):
        monkeypatch.setattr(warehouse.Parcels, method.__name__, method)
    task = warehouse.Parcels(warehouse.WINDOWS)
    rows = task_methods.feature_rows(task.schema, task.events(task_methods.rows_of(task.schema)))
    (note,) = asked_features.list_notes(task, asked_features.ask_features(task, rows), "bigquery")
    for expression in ("code: Lowercase", "the events sent: Uppercase", "labels: Reverse", "days: Uppercase"):
        assert f"{expression} of texts beyond ASCII" in note
    assert not asked_features.list_notes(task, asked_features.ask_features(task, rows), "duckdb")


def test_more_than_max_gb_is_refused_before_it_costs(cloud, warehouse, prepared, tmp_path):
    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(40))
    cloud.bigquery.pretended_bytes = 5 << 40
    words = r"would read 5,120.00 GB \(\$31.25\), but a step may read 100 GB. Raise max_gb"
    with pytest.raises(UserError, match=words):
        prepared()
    assert not cloud.bigquery.jobs and not (tmp_path / "made").exists()
    cloud.bigquery.pretended_bytes = 1 << 30
    with pytest.raises(UserError, match=r"would read 1.00 GB .* after 3.00 GB .* by earlier queries"):
        prepared(max_gb=3.5)


def test_places_that_do_not_fit_are_named(cloud, warehouse, prepared):
    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(40))
    cloud.bigquery.add_dataset("far", location="us-central1")
    cloud.bigquery.write("test-project.far.parcels", warehouse.parcels(40))
    with pytest.raises(UserError, match=r"parcels is in EU and bq://.* in us-central1: BigQuery does not"):
        prepared(f"{warehouse.URI},bq://test-project.far.parcels")
    with pytest.raises(UserError, match="is in EU, but .* has location = 'US'"):
        prepared(location="US")
    with pytest.raises(UserError, match='for intermediate results, is in us-central1.*dataset = "far_eu"'):
        prepared(dataset="far")


def test_a_stop_cancels_the_job_and_leaves_nothing(cloud, warehouse, prepared, plain, tmp_path):
    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(80))
    cloud.bigquery.held = True
    before = signal.getsignal(signal.SIGTERM)
    cloud.on("bigquery.jobs.get", lambda call: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(SystemExit) as stop:
        prepared()
    (job,) = cloud.bigquery.jobs.values()
    assert stop.value.code == 143 and job.error["reason"] == "stopped" and not (tmp_path / "made").exists()
    assert signal.getsignal(signal.SIGTERM) is before
    cloud.after.clear()
    cloud.bigquery.held = False
    assert prepared()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("quotaExceeded", "a quota of the project is used up for now: .* BigQuery's message: Custom quota exceeded."),
        ("resourcesExceeded", "the query is too large for the project's slots"),
        ("billingNotEnabled", "the project has no billing"),
    ],
)
def test_quotas_are_explained(cloud, warehouse, prepared, reason, words):
    from tools.emulator.bigquery import refusal
    from tools.emulator.faults import Fault

    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(40))
    cloud.fail("bigquery.jobs.insert", Fault(answer=refusal(403, reason, "Custom quota exceeded")), forever=True)
    with pytest.raises(UserError, match=words):
        prepared()


def test_tables_without_a_version_are_refused(cloud, warehouse, prepared):
    table = cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(40))
    table.kind, table.fields = "EXTERNAL", {"externalDataConfiguration": {"sourceUris": ["gs://bucket/a.csv"]}}
    with pytest.raises(UserError, match="external table, and BigQuery keeps no versions of it. Use its files: gs://"):
        prepared()


def test_no_project_is_a_sentence(warehouse, prepared, cloud, monkeypatch):
    import google.auth
    from google.auth.credentials import AnonymousCredentials

    monkeypatch.delenv("GOOGLE_CLOUD_PROJECT")
    monkeypatch.setattr(google.auth, "default", lambda **_: (AnonymousCredentials(), None))
    with pytest.raises(UserError, match="BigQuery needs a project to bill queries to"):
        prepared()


def test_a_server_that_is_down_is_a_failure_not_a_mistake(warehouse, prepared, cloud, monkeypatch):
    from tools.emulator.cloud import status
    from vgp.base.storage.bigquery import client

    monkeypatch.setattr(client, "DEADLINE_S", 0.5)
    cloud.fail("bigquery.tables.get", status(503, "down"), forever=True)
    with pytest.raises(StoreDown, match="503|down"):
        prepared()


def counted(cloud, warehouse, data=""):
    """The rows of a source as BigQuery counts them, and as they are streamed here."""
    relations = Lookup("test-project").pin([data or warehouse.URI])
    with BigQuery.open(relations, warehouse.Parcels.schema, Settings(), OWNER) as engine:
        there = engine.read(engine.source().agg(rows=engine.source().count())).to_pylist()[0]["rows"]
    with open_table_rows(relations, warehouse.Parcels.schema, Settings(), OWNER) as rows:
        batches = list(rows.batches())
    assert len({id for batch in batches for id in batch["id"].to_pylist()}) == there
    return there, sum(batch.num_rows for batch in batches)


def test_a_table_that_wants_a_filter_is_read_whole(cloud, warehouse):
    rows = warehouse.parcels(300)
    for column in ("day", "floor", "local", "sent"):
        cloud.bigquery.write(warehouse.TABLE, rows, partitioned=column)
        assert counted(cloud, warehouse) == (300, 300)


@pytest.mark.parametrize("asked", ["read", "batches"])
def test_columns_that_bigquery_gives_in_other_letters_are_the_same(cloud, warehouse, asked):
    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(40))
    relations = Lookup("test-project").pin([warehouse.URI])
    with BigQuery.open(relations, warehouse.Parcels.schema, Settings(), OWNER) as engine:
        source = engine.source()
        made = engine.create("few", source.select(ID=source.id, Floor=source.floor)).op()
        schema = ibis.schema({"floor": "int16", "id": "int64"})
        table = ibis.table(schema, name=made.name, catalog=made.namespace.catalog, database=made.namespace.database)
        given = engine.read(table) if asked == "read" else pa.Table.from_batches(engine.batches(table))
    assert given.column_names == ["floor", "id"] and sorted(given["id"].to_pylist()) == list(range(-20, 20))


def test_views_of_views_and_numbers_of_other_kinds_are_read(cloud, warehouse):
    rows = warehouse.parcels(300)
    rounded = pa.array([None if v is None else round(v, 9) for v in rows["weight"].to_pylist()])
    rows = warehouse.changed(rows, weight=rounded.cast(pa.decimal128(38, 9)))
    cloud.bigquery.write(warehouse.TABLE, rows)
    cloud.bigquery.add_view("test-project.shop.some", "SELECT * FROM shop.parcels WHERE id >= 0 -- half\n;")
    cloud.bigquery.add_view("test-project.shop.few", "SELECT * FROM `test-project.shop.some` AS s WHERE s.id < 50")
    assert counted(cloud, warehouse, "bq://test-project.shop.few") == (50, 50)


def test_a_stream_that_breaks_off_goes_on_where_it_was(cloud, warehouse):
    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(20_000))
    cloud.bigquery.broken_streams = 2
    assert counted(cloud, warehouse) == (20_000, 20_000) and not cloud.bigquery.broken_streams


@pytest.fixture
def jobs(cloud, warehouse, monkeypatch):
    """What asks BigQuery in the name of one step; each call is a process of its own."""
    from google.cloud.bigquery.retry import DEFAULT_RETRY

    from vgp.base.storage.bigquery import client

    monkeypatch.setattr(client, "default_retry", lambda: DEFAULT_RETRY.with_delay(initial=0.01, maximum=0.02))
    cloud.bigquery.write(warehouse.TABLE, warehouse.parcels(40))
    return lambda: Jobs(Settings(), "EU", OWNER)


IDS = "SELECT id FROM `test-project.shop.parcels`"


def test_a_job_whose_answer_was_lost_is_found_and_not_run_twice(cloud, jobs):
    from tools.emulator.cloud import lose_response
    from tools.emulator.faults import Fault

    cloud.fail("bigquery.jobs.insert", Fault(), lose_response())  # the dry run, and what it was for
    first = jobs().table("ids", IDS, "ids")
    assert len(cloud.bigquery.jobs) == 1
    assert jobs().table("ids", IDS, "ids") == first and len(cloud.bigquery.jobs) == 1
    assert jobs().rows("ids", IDS).num_rows == jobs().rows("ids", IDS).num_rows == 40
    assert len(cloud.bigquery.jobs) == 2


def test_a_result_that_is_gone_or_failed_is_computed_again(cloud, jobs):
    from tools.emulator.bigquery_sql import Name

    first = jobs().table("ids", IDS, "ids")
    name = Name(first.project, first.dataset, first.table)
    assert cloud.bigquery.tables[name].expires  # whatever the default of its dataset
    cloud.bigquery.tables[name].expires = cloud.clock.now()
    assert jobs().table("ids", IDS, "ids") == first and cloud.bigquery.find(name)
    del cloud.bigquery.datasets[name[:2]], cloud.bigquery.tables[name]
    assert jobs().table("ids", IDS, "ids") == first and cloud.bigquery.find(name)
    for job in cloud.bigquery.jobs.values():
        job.error = {"reason": "stopped", "message": "Job execution was cancelled"}
    assert jobs().table("ids", IDS, "ids") == first
    assert [name[-2:] for name in cloud.bigquery.jobs] == ["-0", "-1", "-2", "-3"]


def test_a_job_that_fails_is_reported_with_the_query_and_the_reason(cloud, jobs):
    cloud.bigquery.held = True
    cloud.on("bigquery.jobs.get", lambda call: fail())

    def fail():
        for job in cloud.bigquery.jobs.values():
            job.done, job.error = True, {"reason": "invalidQuery", "message": "Division by zero: 1 / 0"}

    with pytest.raises(UserError, match=r"ids is refused by BigQuery: Division by zero: 1 / 0\.$"):
        jobs().table("ids", IDS, "ids")
