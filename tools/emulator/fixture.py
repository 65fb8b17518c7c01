"""The pytest fixture `cloud`, and what it leaves out."""

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
    """google-auth looks up where an account may be used: a thread and a TLS connection for each client of this process.

    They took three quarters of a call's time. A file in which they matter has an empty fixture of this name.
    """
    from google.auth.credentials import CredentialsWithRegionalAccessBoundary as Credentials

    monkeypatch.setattr(Credentials, "_is_regional_access_boundary_lookup_required", lambda self: False)


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, without_lookups: None) -> Iterator[Cloud]:
    """A Google Cloud of its own for each test, signed in anew, in which this process and its children are."""
    with Cloud() as cloud:
        for name, value in cloud.environment.items():
            monkeypatch.setenv(name, value)
        sign_out()
        yield cloud
        sign_out()
        if cloud.crashed:
            raise cloud.crashed
        lacking = unlisted(cloud)
        assert not lacking, f"calls of ours without a row in vgp/vertex/data/permissions.csv: {lacking}"


@pytest.fixture
def sdk(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Google's own SDK, `google.cloud.aiplatform`, at work on the cloud."""
    from google.cloud import aiplatform, resourcemanager
    from google.cloud.aiplatform import initializer

    # The one client of the SDK that does not heed api_transport; it finds us through the proxy.
    rest = partial(resourcemanager.ProjectsClient, transport="rest")
    monkeypatch.setattr(resourcemanager, "ProjectsClient", rest)
    before = dict(vars(initializer.global_config))
    aiplatform.init(
        project="test-project", location="us-central1", api_endpoint=cloud.endpoint("aiplatform"), api_transport="rest"
    )
    yield aiplatform
    vars(initializer.global_config).update(before)


def unlisted(cloud: Cloud) -> set[str]:
    """Methods that the product called, by the name it gives itself, and that its table of permissions lacks."""
    sent = [call for call in cloud.requests if call.method and "vertex-gpu-pipelines/" in _agent(call)]
    ours = {call.method for call in sent} - cloud.called_by_test
    return ours - {row.method for row in calls() if row.by == "caller"}


def _agent(call: Call) -> str:
    return call.headers.get("x-goog-api-client", "") + call.headers.get("user-agent", "")
