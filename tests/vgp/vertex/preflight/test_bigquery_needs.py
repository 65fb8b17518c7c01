"""BigQuery, where steps may use it: who may query, and the tables that are named."""

import pyarrow as pa
import pytest

from vgp.machines.placement.request_parts import BigQuery, Engines

from .conftest import RUNNER

TABLE = "test-project.flights.rows"
URI = f"bq://{TABLE}"
READER = {"role": "READER", "userByEmail": RUNNER}


@pytest.fixture
def asking(world):
    """A pipeline whose parameter names a table, and whose step limits how much may be read of BigQuery."""

    def ask(**settings):
        variables = Engines(bigquery=BigQuery(**settings)).environment()
        world.spec["components"]["comp"] = {"executorLabel": "exec"}
        env = [{"name": name, "value": value} for name, value in variables.items()]
        world.spec["deploymentSpec"] = {"executors": {"exec": {"container": {"image": "i", "env": env}}}}

    ask(max_gb=100)
    world.own["encryption_key"] = None
    parameters = {"data": {"parameterType": "STRING", "defaultValue": f"gs://test-bucket/a.csv, {URI}"}}
    world.spec["root"]["inputDefinitions"] = {"parameters": parameters}
    world.cloud.services.enabled |= {"bigquery.googleapis.com", "bigquerystorage.googleapis.com"}
    world.grant("projects/test-project", "roles/bigquery.user", f"serviceAccount:{RUNNER}")
    world.cloud.bigquery.add_dataset("flights", location="us-central1", access=[READER])
    world.cloud.bigquery.write(TABLE, pa.table({"a": [1, 2, 3]}))
    world.ask = ask
    return world


def of_bigquery(world):
    return {one.check: one for one in world.look() if one.check.startswith("bigquery.")}


def test_where_no_step_may_use_it_nothing_is_asked_of_it(world):
    assert world.found() == [] and of_bigquery(world) == {}
    assert not [method for method in world.calls() if method.startswith("bigquery")]


def test_where_all_is_fine_the_table_is_shown_with_its_size(asking):
    assert asking.found() == []
    fine = of_bigquery(asking)
    assert fine.keys() == {"bigquery.runner", "bigquery.table", "bigquery.location", "bigquery.reader"}
    assert fine["bigquery.table"].seen == "is there, 3 rows, 0.0 GB" and fine["bigquery.table"].subject == URI


@pytest.mark.parametrize("name", ["bigquery", "bigquerystorage"])
def test_its_apis_are_needed(asking, name):
    asking.cloud.services.enabled.discard(f"{name}.googleapis.com")
    assert f"without {name}.googleapis.com" in asking.only("apis.enabled", "error").seen


def test_the_error_for_a_runner_that_may_not_query_names_the_role(asking):
    asking.grant("projects/test-project", "roles/bigquery.user")
    found = asking.only("bigquery.runner", "error")
    assert "bigquery.jobs.create" in found.seen and "--role roles/bigquery.user" in found.hint


def test_a_table_that_is_not_there_is_an_error(asking):
    asking.cloud.bigquery.tables.clear()
    assert asking.only("bigquery.table", "error").hint.endswith("bq ls --project_id=test-project flights")


def test_a_table_that_the_runner_may_not_read_is_an_error(asking):
    asking.cloud.bigquery.datasets["test-project", "flights"].fields["access"] = [
        {"role": "roles/bigquery.metadataViewer", "iamMember": f"serviceAccount:{RUNNER}"},
        {"role": "OWNER", "specialGroup": "projectOwners"},
    ]
    found = asking.only("bigquery.reader", "error")
    assert "does not grant" in found.seen and "bigquery.tables.getData" in found.seen
    grant = f'GRANT `roles/bigquery.dataViewer` ON SCHEMA `test-project`.`flights` TO "serviceAccount:{RUNNER}"'
    assert grant in found.hint


@pytest.mark.parametrize(
    ("access", "project_role"),
    [
        ({"role": "roles/bigquery.dataViewer", "iamMember": f"serviceAccount:{RUNNER}"}, ""),
        ({"role": "READER", "specialGroup": "allAuthenticatedUsers"}, ""),
        ({"role": "READER", "specialGroup": "projectReaders"}, "roles/viewer"),
        ({"role": "WRITER", "userByEmail": RUNNER}, ""),
        ({"view": {"projectId": "p", "datasetId": "d", "tableId": "t"}}, "roles/bigquery.dataViewer"),
    ],
)
def test_every_kind_of_read_grant_on_a_dataset_counts(asking, access, project_role):
    asking.cloud.bigquery.datasets["test-project", "flights"].fields["access"] = [access]
    if project_role:
        asking.grant("projects/test-project", project_role, f"serviceAccount:{RUNNER}")
    assert asking.found() == []


def test_data_elsewhere_than_the_bucket_is_an_error(asking):
    asking.cloud.bigquery.add_dataset("flights", location="EU", access=[READER])
    assert asking.only("bigquery.location", "error").seen == (
        "is in EU, the bucket of the runs in US-CENTRAL1: BigQuery cannot move rows between these locations"
    )
    asking.cloud.storage.buckets["test-bucket"].update(location="EU", locationType="multi-region")
    assert "bigquery.location" not in {one.check for one in asking.found()}


def test_the_location_of_the_settings_has_to_be_that_of_the_data(asking):
    asking.ask(location="EU")
    found = asking.only("bigquery.location", "error")
    assert found.seen == "is in us-central1, but the settings have EU" and 'location = "us-central1"' in found.hint


def test_a_table_of_more_than_may_be_read_is_a_warning(asking):
    asking.ask(max_gb=1e-9)
    assert "a step may read 1e-09 GB" in asking.only("bigquery.table", "warning").seen


def test_the_tables_of_schedules_are_looked_at(asking, monkeypatch):
    asking.spec["root"]["inputDefinitions"] = {}
    asking.spec["pipelineInfo"] = {"name": "training"}
    assert "bigquery.table" not in of_bigquery(asking)
    asking.own["schedules.nightly"] = {
        "pipeline": "training", "cron": "0 2 * * *", "parameters": {"data": "bq://test-project.flights.missing"},
    }  # fmt: skip
    assert asking.only("bigquery.table", "error").subject == "bq://test-project.flights.missing"


def test_a_caller_who_may_not_look_is_reported(asking):
    asking.cloud.policies.missing.add("bigquery.tables.get")
    assert "not seen" in asking.only("bigquery.table", "unknown").seen
