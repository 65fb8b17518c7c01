"""The pytest fixture `cloud`."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from isolation import sign_out

from vgp.vertex.permissions import calls

from .call import Call
from .cloud import Cloud


@pytest.fixture
def without_lookups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns off google-auth's lookup of an account's allowed locations: a thread and a TLS connection for each client.

    The lookup took three quarters of a call's time. A test file that needs it has an empty fixture of this name.
    """
    from google.auth.credentials import CredentialsWithRegionalAccessBoundary as Credentials

    monkeypatch.setattr(Credentials, "_is_regional_access_boundary_lookup_required", lambda self: False)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, without_lookups: None) -> Iterator[Cloud]:
    """Connects this process and its children to a new Google Cloud for each test."""
    with Cloud() as cloud:
        for name, value in cloud.environment.items():
            monkeypatch.setenv(name, value)
        sign_out()
        yield cloud
        sign_out()
        if cloud.crashed:
            raise cloud.crashed
        lacking = list_unlisted_methods(cloud)
        assert not lacking, f"calls of ours without a row in vgp/vertex/data/permissions.csv: {lacking}"


@pytest.fixture
def sdk(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Returns Google's SDK, `google.cloud.aiplatform`, connected to the cloud."""
    from google.cloud import aiplatform, resourcemanager
    from google.cloud.aiplatform import initializer

    # The only client of the SDK that ignores api_transport; it reaches the cloud through the proxy.
    rest = partial(resourcemanager.ProjectsClient, transport="rest")
    monkeypatch.setattr(resourcemanager, "ProjectsClient", rest)
    before = dict(vars(initializer.global_config))
    aiplatform.init(
        project="test-project", location="us-central1", api_endpoint=cloud.endpoint("aiplatform"), api_transport="rest"
    )
    yield aiplatform
    vars(initializer.global_config).update(before)


def list_unlisted_methods(cloud: Cloud) -> set[str]:
    """Returns the methods that vgp called, by its user agent, and that its table of permissions lacks."""
    sent = [call for call in cloud.requests if call.method and "vertex-gpu-pipelines/" in _agent(call)]
    ours = {call.method for call in sent} - cloud.called_by_test
    return ours - {row.method for row in calls() if row.by == "caller"}


def _agent(call: Call) -> str:
    return call.headers.get("x-goog-api-client", "") + call.headers.get("user-agent", "")
