"""Dataflow, where steps may use it: who may start a job, whether its workers may work, and the quotas."""

import pytest

from vgp.machines.placement.request_parts import Engines, Job

from .conftest import IMAGE, IMAGES, RUNNER

WORKER = "workers@test-project.iam.gserviceaccount.com"
COMPUTE = "compute.googleapis.com"
QUOTAS = {"n2_cpus": 80, "in_use_addresses": 20, "disks_total_storage": 1000}


@pytest.fixture
def asking(world):
    def ask(**settings):
        known = {"project": "test-project", "region": "us-central1", "image": f"{IMAGE}:v1", "max_workers": 20}
        variables = Engines(dataflow=Job(**{**known, **settings})).environment()
        env = [{"name": name, "value": value} for name, value in variables.items()]
        world.spec["deploymentSpec"] = {"executors": {"exec": {"container": {"image": "i", "env": env}}}}

    ask()
    world.own["encryption_key"] = None
    world.cloud.services.enabled.add("dataflow.googleapis.com")
    world.cloud.zones.zones["us-central1-a"]["machineTypes"]["n2-standard-4"] = 4
    for role in ("roles/dataflow.developer", "roles/dataflow.worker"):
        world.grant("projects/test-project", role, f"serviceAccount:{RUNNER}")
    for name, value in QUOTAS.items():
        world.cloud.quotas.set(name, value, service=COMPUTE, metric=f"{COMPUTE}/{name}", region="us-central1")
    world.ask = ask
    return world


def test_where_no_step_uses_it_nothing_is_asked(world):
    assert not [one for one in world.look() if one.check.startswith("dataflow.")]


def test_where_all_is_fine_there_is_no_finding(asking):
    assert asking.found() == []


def test_its_api_is_needed(asking):
    asking.cloud.services.enabled.discard("dataflow.googleapis.com")
    asking.only("apis.enabled", "error")


@pytest.mark.parametrize(
    ("role", "check", "permission"),
    [
        ("roles/dataflow.developer", "dataflow.jobs", "dataflow.jobs.create"),
        ("roles/dataflow.worker", "dataflow.worker", "dataflow.workItems.lease"),
    ],
)
def test_a_role_that_is_missing_is_named(asking, role, check, permission):
    asking.grant("projects/test-project", role)
    found = asking.only(check, "error")
    assert permission in found.seen and f"--role {role}" in found.hint


def test_workers_of_another_account_need_rights_of_their_own(asking):
    asking.ask(service_account=WORKER)
    asking.cloud.accounts.add(WORKER)
    lacking = {one.check for one in asking.found()}
    assert lacking == {"dataflow.worker", "dataflow.act_as", "dataflow.writer", "dataflow.image"}
    member = f"serviceAccount:{WORKER}"
    asking.grant("projects/test-project", "roles/dataflow.worker", member)
    account = f"projects/test-project/serviceAccounts/{WORKER}"
    asking.grant(account, "roles/iam.serviceAccountUser", f"serviceAccount:{RUNNER}")
    asking.cloud.storage.bindings["test-bucket"]["roles/storage.objectUser"].append(member)
    asking.grant(IMAGES, "roles/artifactregistry.reader", f"serviceAccount:{RUNNER}", member)
    assert asking.found() == []


@pytest.mark.parametrize(
    ("metric", "words"),
    [("n2_cpus", "80 vCPU"), ("in_use_addresses", "20 addresses"), ("disks_total_storage", "1,000 GB of disk")],
)
def test_a_quota_that_is_too_small_means_fewer_workers(asking, metric, words):
    asking.cloud.quotas.set(metric, 8, service=COMPUTE, metric=f"{COMPUTE}/{metric}", region="us-central1")
    found = asking.only("dataflow.quota", "warning")
    assert f"20 workers of Dataflow need {words}; the limit is 8: fewer will start" in found.seen


def test_workers_without_public_addresses_need_none(asking):
    asking.cloud.quotas.set("in_use_addresses", 0, service=COMPUTE, metric=f"{COMPUTE}/in_use_addresses")
    asking.ask(subnetwork="regions/us-central1/subnetworks/private")
    assert asking.found() == []


def test_a_machine_that_the_region_does_not_have_is_a_warning(asking):
    asking.ask(machine="n2-standard-48", max_workers=1)
    assert asking.only("dataflow.machine", "warning").subject == "n2-standard-48 in us-central1"
