"""Tables and queries of BigQuery are pinned by their last change, and read as they were then."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from vgp.base.exits import UserError
from vgp.data.prepare import prepare, read_pinned_input

NAME = "test-project.shop.visits"
URI = f"bq://{NAME}"


@pytest.fixture
def write(cloud, visits):
    """Writes the visits of some days into the table, `ago` days before now."""
    import pyarrow.csv

    def written(last, *, ago=0.0, name=NAME, **more):
        rows = pyarrow.csv.read_csv(pa.BufferReader(visits.table(0, last)))
        return cloud.bigquery.write(name, rows, at=cloud.clock.now() - timedelta(days=ago), **more)

    return written


@pytest.fixture
def resolve(pin, cloud):
    """Pins as of the cloud's time."""
    windows = {"train": "2026-01-01:2026-01-20", "test": "2026-01-21:2026-01-31"}

    def resolved(data=URI, **more):
        return pin(data, **{"now": cloud.clock.now(), "options": windows, **more})

    return resolved


def test_two_nights_without_a_change_are_equal_and_a_change_is_another(cloud, write, resolve, tmp_path):
    write(20, ago=40)
    query = tmp_path / "visits.sql"
    query.write_text(f"SELECT * FROM `{NAME}` WHERE id > 20")
    cloud.bigquery.add_view("test-project.shop.seen", "SELECT * FROM shop.visits")
    asked = (URI, "bq://test-project.shop.seen", str(query), f"{query},{URI}")
    first = [resolve(data) for data in asked]
    assert [resolve(data, run="another", now=cloud.clock.now() + timedelta(days=1)) for data in asked] == first
    assert len({pins.digest for pins in first}) == len(asked)
    write(30)
    assert not {pins.data for pins in first} & {resolve(data).data for data in asked}
    assert first[0].words[0] == f"data: {URI}."
    assert first[0].words[1].startswith(f"BigQuery, EU: reading {URI} once is ")
    assert not cloud.bigquery.jobs  # nothing was billed


@pytest.mark.parametrize("what", ["a query", "a view"])
def test_another_text_is_other_data(cloud, write, resolve, tmp_path, what):
    write(20, ago=2)
    query, view = tmp_path / "visits.sql", "test-project.shop.seen"

    def texts(condition):
        query.write_text(f"SELECT * FROM `{NAME}` WHERE {condition}")
        cloud.bigquery.add_view(view, f"SELECT * FROM shop.visits WHERE {condition}")
        return resolve(f"bq://{view}" if what == "a view" else str(query)).data

    assert texts("id > 20") == texts("id > 20") != texts("id > 30")


def test_a_step_reads_what_was_pinned_whatever_came_later(cloud, write, resolve, visits, tmp_path):
    write(40, ago=3)
    pins = resolve()
    before = prepare(visits.TASK, pins.data, tmp_path / "before", options=_options(pins, visits))
    write(30)
    after = prepare(visits.TASK, pins.data, tmp_path / "after", options=_options(pins, visits))
    assert after.splits == before.splits and after.fingerprint == before.fingerprint
    assert (after.rows_read, resolve().data != pins.data) == (41 * 6, True)


def test_beyond_seven_days_only_an_unchanged_table_can_be_read(cloud, write, resolve, visits, tmp_path):
    write(40, ago=30)
    pins = resolve()
    assert prepare(visits.TASK, pins.data, tmp_path / "made", options=_options(pins, visits)).rows_read == 246
    write(41)
    with pytest.raises(UserError, match=f"{URI} was pinned as of .* but changed on .* only the past 7 days"):
        prepare(visits.TASK, pins.data, tmp_path / "again", options=_options(pins, visits))


def test_a_table_that_was_made_anew_is_no_more_what_was_pinned(cloud, write, resolve, visits, tmp_path):
    from tools.emulator.bigquery_sql import Name
    from vgp.base.storage.bigquery.names import parse

    write(40, ago=2)
    pins = resolve()
    del cloud.bigquery.tables[Name(*str(parse(URI)).split("."))]
    write(40)
    with pytest.raises(UserError, match="was deleted and recreated on"):
        prepare(visits.TASK, pins.data, tmp_path / "made", options=_options(pins, visits))


def _options(pins, visits):
    return read_pinned_input(pins.data, visits.TASK)[1]


def test_as_of_is_the_state_of_that_moment_as_far_as_bigquery_shows_it(cloud, write, resolve, read, tmp_path):
    write(25, ago=20)
    write(28, ago=4)
    write(40, ago=1)
    three_days_ago = (cloud.clock.now() - timedelta(days=3)).isoformat()
    seen = resolve(as_of=three_days_ago, task="visits:Untimed", options={})
    assert read(seen.uri)["seen"] == "state" and "tables are read as of that time" in seen.words[-1]
    _, options = read_pinned_input(seen.data, "visits:Untimed")
    assert prepare("visits:Untimed", seen.data, tmp_path / "made", options=options).rows_read == 29 * 6
    ten_days_ago = (cloud.clock.now() - timedelta(days=10)).isoformat()
    with pytest.raises(UserError, match="nor in BigQuery tables within their 7 days"):
        resolve(as_of=ten_days_ago, task="visits:Untimed", options={})
    middle = (cloud.clock.now() - timedelta(days=0.5)).isoformat()
    assert (
        read(resolve(as_of=middle, task="visits:Untimed", options={}).data)["relations"]
        == read(resolve(task="visits:Untimed", options={}).data)["relations"]
    )


def test_windows_that_follow_from_the_data_ask_for_its_days(cloud, write, resolve, read):
    write(40, ago=2)
    pinned = read(resolve(options={"train": "20 days", "test": "10 days"}, run="training-1").data)
    assert (pinned["options"]["train"], pinned["options"]["test"]) == ("2026-01-12:2026-01-31", "2026-02-01:2026-02-10")
    (job,) = cloud.bigquery.jobs.values()
    assert job.labels == {"tool": "vertex-gpu-pipelines", "run": "training-1", "step": "resolve"}
    assert job.bytes == 41 * 6 * 8  # the dates alone


def test_a_table_that_rows_are_streamed_into_is_pinned_by_the_minute(cloud, write, resolve):
    table = write(20, ago=2)
    first = resolve()
    table.fields = {"streamingBuffer": {"estimatedRows": "10"}}
    assert resolve().data != first.data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT *, RAND() AS r FROM `{}`", "RAND draws rows at random.*FARM_FINGERPRINT"),
        ("SELECT * FROM `{}` WHERE day < CURRENT_DATE()", "CURRENT_DATE has another value in each run"),
        ("SELECT * FROM `{}` WHERE SESSION_USER() = 'x'", "SESSION_USER depends on the account"),
        ("SELECT * FROM `{}` LIMIT 10", "LIMIT without ORDER BY returns other rows"),
        ("SELECT * FORM `{}`", "visits.sql does not parse: line 1, column"),
        ("SELEC page FROM `{}`", "visits.sql does not parse: line 1, column .*: 'FROM' is not expected there"),
        ("SELEC * FORM `{}`", "must be one SELECT, but begins with 'SELEC"),
        ("SELECT * FROM `{}` WHERE", "line 1, column .*: something is missing after 'WHERE'"),
        ("-- later", "has no query: write one SELECT"),
        ("EXPLAIN SELECT 1", "must be one SELECT, but has EXPLAIN"),
        ("SELECT 1; SELECT 2", "must be one SELECT, but has SELECT, SELECT"),
        ("DELETE FROM `{}` WHERE TRUE", "must be one SELECT, but has DELETE"),
        ("SELECT * FROM shop.visits", "reads shop.visits, which is not a full name"),
        ("SELECT * FROM `test-project.shop.gone`", "visits.sql: bq://test-project.shop.gone does not exist: Not found"),
        ("SELECT nothing FROM `{}`", "visits.sql is refused by BigQuery"),
        ("SELECT id, size, yes FROM `{}`", "visits.sql lacks the column day; it has id, size, yes"),
        ("SELECT 1 AS id", "reads no table"),
    ],
)
def test_a_query_that_no_second_run_could_repeat_is_refused_before_anything_runs(
    cloud, write, resolve, tmp_path, text, words
):
    write(5)
    (tmp_path / "visits.sql").write_text(text.format(NAME))
    with pytest.raises(UserError, match=words):
        resolve(tmp_path / "visits.sql")
    assert not cloud.bigquery.jobs and not (tmp_path / "runs").exists()


def test_a_query_in_a_bucket_is_read_there_and_the_bucket_must_be_near(cloud, write, resolve, bucket, monkeypatch):
    from vgp.base.storage import storage

    write(20, ago=2)
    storage.overwrite(f"{bucket}/visits.sql", f"SELECT * FROM `{NAME}`".encode())
    monkeypatch.setattr(storage, "location", lambda path: "EUROPE-WEST4")
    assert resolve(f"{bucket}/visits.sql", folder=f"{bucket}/pins").uri
    monkeypatch.setattr(storage, "location", lambda path: "US-CENTRAL1")
    with pytest.raises(UserError, match="is in EU, but the bucket of the runs, gs://runs, is in US-CENTRAL1"):
        resolve(f"{bucket}/visits.sql", folder=f"{bucket}/pins")


@pytest.mark.parametrize(
    ("dataset", "bucket", "fits"),
    [
        ("EU", "EU", True), ("EU", "EUROPE-WEST4", True), ("EU", "EUR4", True), ("EU", "US", False),
        ("US", "US-CENTRAL1", True), ("US", "NAM4", True), ("US", "ASIA-EAST1", False),
        ("us-central1", "US-CENTRAL1", True), ("us-central1", "US", True), ("us-central1", "US-EAST1", False),
        ("europe-west1", "EUROPE-WEST10", False), ("asia-northeast1", "ASIA-NORTHEAST1", True),
    ],
)  # fmt: skip
def test_a_bucket_is_near_in_the_same_region_or_the_multi_region_around_it(dataset, bucket, fits):
    from vgp.base.storage.bigquery.names import near

    assert near(dataset, bucket) is fits


def test_pins_of_an_earlier_run_are_taken_as_they_were(cloud, write, resolve):
    write(20, ago=2)
    first = resolve()
    write(30)
    again = resolve(pins=first.uri)
    assert (again.data, again.digest) == (first.data, first.digest)


def test_nothing_of_google_is_imported_before_a_table_is_read():
    import ast

    import vgp.base.storage.bigquery as package

    for path in Path(package.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = (
                [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", "")]
            )
            assert not any((name or "").startswith(("google", "grpc", "sqlglot")) for name in names), path
