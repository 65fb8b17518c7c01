"""Calls without a generated client: methods, headers, errors, repetition and pages."""

import pytest
from google.api_core import exceptions

from tools.emulator.cloud import reset, status
from vgp.vertex import clients, rest

ACCOUNT = "v1/projects/-/serviceAccounts/pipelines@test-project.iam.gserviceaccount.com"
GET, TEST = "iam.projects.serviceAccounts.get", "iam.projects.serviceAccounts.testIamPermissions"


def calls(cloud, method):
    return [call for call in cloud.requests if call.method == method]


def test_a_call_without_a_body_reads_and_one_with_a_body_posts(cloud, settings):
    assert rest.call(settings, "iam", ACCOUNT, **clients.once())["email"].startswith("pipelines@")
    permissions = ["iam.serviceAccounts.actAs"]
    asked = rest.call(settings, "iam", f"{ACCOUNT}:testIamPermissions", body={"permissions": permissions})
    assert asked == {"permissions": permissions}
    assert [len(calls(cloud, GET)), len(calls(cloud, TEST))] == [1, 1]


def test_a_call_names_the_client_and_the_project_that_pays(cloud, settings):
    rest.call(settings, "iam", ACCOUNT)
    headers = calls(cloud, GET)[0].headers
    assert headers["user-agent"] == clients.USER_AGENT and headers["x-goog-user-project"] == "test-project"


def test_errors_are_those_of_the_generated_clients(cloud, settings):
    with pytest.raises(exceptions.NotFound):
        rest.call(settings, "iam", ACCOUNT.replace("pipelines@", "other@"), **clients.reading())
    cloud.fail(GET, status(403, reason="SERVICE_DISABLED", metadata={"service": "iam.googleapis.com"}))
    with pytest.raises(exceptions.Forbidden) as refused:
        rest.call(settings, "iam", ACCOUNT, **clients.reading())
    assert refused.value.reason == "SERVICE_DISABLED"


def test_what_may_be_repeated_is_and_what_may_not_is_not(cloud, settings):
    cloud.fail(GET, status(503), reset())
    rest.call(settings, "iam", ACCOUNT, **clients.reading())
    assert len(calls(cloud, GET)) == 3
    cloud.fail(GET, status(503))
    with pytest.raises(exceptions.ServiceUnavailable):
        rest.call(settings, "iam", ACCOUNT, **clients.once())


def test_every_page_is_read(cloud, settings):
    cloud.called_by_test.add("iam.projects.serviceAccounts.list")
    for number in range(5):
        cloud.accounts.add(f"a{number}@test-project.iam.gserviceaccount.com")
    path = "v1/projects/test-project/serviceAccounts"
    found = list(rest.pages(settings, "iam", path, query={"pageSize": 2}, **clients.reading()))
    listed = [each["email"] for page in found for each in page["accounts"]]
    assert sorted(listed) == sorted(cloud.accounts.accounts) and len(found) == -(-len(listed) // 2)
