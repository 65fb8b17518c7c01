"""What the project has and may do, as Google's clients read it."""

import pytest
from google.api_core import exceptions

from tests.tools.emulator.conftest import PARENT
from tools.emulator.cloud import Cloud
from tools.emulator.example import furnish


def test_apis_are_enabled_until_they_are_not(cloud, client):
    from google.cloud.service_usage_v1 import ServiceUsageClient

    usage = client(ServiceUsageClient, "serviceusage")
    cloud.services.enabled.discard("compute.googleapis.com")
    names = [f"projects/test-project/services/{name}.googleapis.com" for name in ("aiplatform", "compute")]
    answer = usage.batch_get_services(request={"parent": "projects/test-project", "names": names})
    assert [each.state.name for each in answer.services] == ["ENABLED", "DISABLED"]
    cloud.pages.longest = 5
    enabled = list(usage.list_services(request={"parent": "projects/test-project", "filter": "state:ENABLED"}))
    assert len(enabled) == len(cloud.services.enabled)


def test_quotas_are_those_that_were_set(cloud, client):
    from google.cloud.cloudquotas_v1 import CloudQuotasClient

    quotas = client(CloudQuotasClient, "cloudquotas")
    parent = "projects/test-project/locations/global/services/aiplatform.googleapis.com"
    cloud.quotas.set("CustomModelTrainingL4GPUs", 1, region="us-central1")
    cloud.quotas.set("CustomModelTrainingL4GPUs", 8, region="us-central1")
    cloud.quotas.set("CustomModelTrainingL4GPUs", 0)
    listed = quotas.list_quota_infos(request={"parent": parent, "page_size": 2})
    [info] = [each for each in listed if each.quota_id == "CustomModelTrainingL4GPUs"]
    limits = {str(dict(each.dimensions)): each.details.value for each in info.dimensions_infos}
    assert limits == {"{'region': 'us-central1'}": 8, "{}": 0}
    assert quotas.get_quota_info(name=f"{parent}/quotaInfos/CustomModelTrainingL4GPUs") == info
    with pytest.raises(exceptions.NotFound):
        quotas.get_quota_info(name=f"{parent}/quotaInfos/Other")


def test_the_project_has_a_number_a_policy_and_billing(cloud, client, post):
    from google.cloud.resourcemanager_v3 import ProjectsClient

    projects = client(ProjectsClient, "cloudresourcemanager")
    cloud.policies.bindings["projects/test-project"] = {"roles/owner": ["user:a@example.com"]}
    cloud.policies.missing.add("aiplatform.pipelineJobs.create")
    assert projects.get_project(name="projects/test-project").name == "projects/123456789012"
    policy = projects.get_iam_policy(resource="projects/test-project")
    assert [(each.role, list(each.members)) for each in policy.bindings] == [("roles/owner", ["user:a@example.com"])]
    asked = ["aiplatform.pipelineJobs.create", "aiplatform.pipelineJobs.get"]
    held = projects.test_iam_permissions(resource="projects/test-project", permissions=asked).permissions
    assert list(held) == asked[1:]
    with pytest.raises(exceptions.Forbidden):
        projects.get_project(name="projects/other")
    assert post("cloudbilling", "v1/projects/test-project/billingInfo", "GET").json()["billingEnabled"] is True


def test_what_needs_a_missing_permission_is_refused(cloud, pipelines, job):
    cloud.policies.missing.add("aiplatform.pipelineJobs.create")
    with pytest.raises(exceptions.Forbidden) as raised:
        pipelines.create_pipeline_job(parent=PARENT, pipeline_job=job)
    assert raised.value.metadata["permission"] == "aiplatform.pipelineJobs.create"


def test_service_accounts_may_be_there_or_not(cloud, post):
    account = "v1/projects/-/serviceAccounts/pipelines@test-project.iam.gserviceaccount.com"
    assert post("iam", account, "GET").json()["projectId"] == "test-project"
    held = post("iam", f"{account}:testIamPermissions", json={"permissions": ["iam.serviceAccounts.actAs"]})
    assert held.json() == {"permissions": ["iam.serviceAccounts.actAs"]}
    assert post("iam", f"{account}:getIamPolicy", json={}).json()["version"] == 1
    assert post("iam", account.replace("pipelines@", "none@"), "GET").status_code == 404


def test_keys_are_found_by_name(client):
    from google.cloud.kms_v1 import KeyManagementServiceClient

    keys = client(KeyManagementServiceClient, "cloudkms")
    name = f"{PARENT}/keyRings/ring/cryptoKeys/key"
    assert keys.get_crypto_key(name=name).primary.state.name == "ENABLED"
    with pytest.raises(exceptions.NotFound):
        keys.get_crypto_key(name=f"{name}2")


def test_zones_have_accelerators_and_machines(cloud, post):
    base = "compute/v1/projects/test-project"
    found = post(
        "compute", f"{base}/aggregated/acceleratorTypes", "GET",
        params={"filter": '(name = "nvidia-l4") OR (name = "nvidia-h100-80gb")', "maxResults": 2},
    ).json()  # fmt: skip
    assert found["nextPageToken"]
    names = {
        scope: [each["name"] for each in part.get("acceleratorTypes", [])] for scope, part in found["items"].items()
    }
    assert names == {"zones/us-central1-a": ["nvidia-l4", "nvidia-h100-80gb"], "zones/us-central1-b": [],
                     "zones/us-central1-f": []}  # fmt: skip
    zone = f"{base}/zones/us-central1-b"
    assert [each["name"] for each in post("compute", f"{zone}/acceleratorTypes", "GET").json()["items"]] == [
        "nvidia-tesla-t4", "nvidia-l4", "nvidia-tesla-a100",
    ]  # fmt: skip
    assert post("compute", f"{zone}/machineTypes/g2-standard-24", "GET").json()["guestCpus"] == 24
    assert post("compute", f"{base}/regions/us-central1", "GET").json()["status"] == "UP"
    assert post("compute", f"{base}/global/networks/default", "GET").json()["peerings"]
    assert post("compute", f"{base}/global/networks/none", "GET").status_code == 404


def test_logs_are_filtered_and_read_in_pages(cloud):
    from google.cloud.logging import Client

    logs = Client(_use_grpc=False, client_options={"api_endpoint": cloud.endpoint("logging")})
    for number in range(7):
        severity = "ERROR" if number == 3 else "INFO"
        cloud.logs.add(f"line {number}", job_id=str(number % 2), severity=severity, labels={"a.b/c": str(number)})
        cloud.clock.advance(60)

    def listed(text, **more):
        return [entry.payload for entry in logs.list_entries(filter_=text, **more)]

    assert listed(None, page_size=2) == [f"line {number}" for number in range(7)]
    assert len(cloud.requests) == 4
    assert listed('resource.type="ml_job" AND resource.labels.job_id="1"') == ["line 1", "line 3", "line 5"]
    assert listed('resource.labels.job_id=("1" OR "2") severity>=ERROR') == ["line 3"]
    assert listed('labels."a.b/c"="4" OR textPayload:"NE 5"', order_by="timestamp desc") == ["line 5", "line 4"]
    moment = cloud.logs.entries[5]["timestamp"]
    assert listed(f'timestamp>="{moment}" NOT labels."a.b/c"="6"') == ["line 5"]
    assert cloud.requests[-1].body["filter"].startswith("timestamp>=")
    with pytest.raises(exceptions.BadRequest):
        listed("severity>=")


def test_the_bucket_is_ours_and_its_server_is_real(cloud):
    from google.cloud.storage import Client

    with Client() as storage:
        bucket = storage.get_bucket("test-bucket")
        assert (bucket.location, bucket.project_number) == ("US-CENTRAL1", 123456789012)
        blob = bucket.blob("a/b c")
        blob.upload_from_string(b"x" * 10, if_generation_match=0)
        with pytest.raises(exceptions.PreconditionFailed):
            bucket.blob("a/b c").upload_from_string(b"y", if_generation_match=0)
        assert [each.name for each in bucket.list_blobs(prefix="a/")] == ["a/b c"]
        assert bucket.blob("a/b c").download_as_bytes() == b"x" * 10
        cloud.storage.bindings["test-bucket"] = {"roles/storage.admin": ["user:a@example.com"]}
        assert bucket.get_iam_policy().bindings[0]["role"] == "roles/storage.admin"
        with pytest.raises(exceptions.NotFound):
            storage.get_bucket("other")
    assert "storage.objects.insert" in [call.method for call in cloud.requests]


def test_each_cloud_starts_with_an_empty_bucket(cloud):
    from google.cloud.storage import Client

    with Client() as storage:
        assert list(storage.list_blobs("test-bucket")) == []


def test_the_example_is_whole_in_another_region():
    cloud = Cloud(region="europe-west4")
    furnish(cloud)
    assert set(cloud.zones.zones) == {f"europe-west4-{letter}" for letter in "abf"}
    assert {bucket["location"] for bucket in cloud.storage.buckets.values()} == {"EUROPE-WEST4"}
    assert {name.split("/")[3] for name in cloud.artifacts.repositories} == {"europe-west4"}
