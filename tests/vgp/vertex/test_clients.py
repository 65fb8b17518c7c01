"""The clients: where they call, who they are, and that they give up."""

import pytest

from tools.emulator.cloud import Cloud, status
from vgp.base import google_api
from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explain_errors

LIST = "aiplatform.projects.locations.pipelineJobs.list"


def runs(settings: Settings) -> list[object]:
    client = clients.pipeline_service(settings)
    return list(client.list_pipeline_jobs(parent=resource_names.location(settings), **clients.reading()))


def test_vertex_is_called_in_the_region_and_the_others_at_their_own_host() -> None:
    settings = Settings(region="europe-west4")
    assert clients.endpoint(settings, "aiplatform") == "https://europe-west4-aiplatform.googleapis.com"
    assert clients.endpoint(settings, "logging") == "https://logging.googleapis.com"


def test_an_endpoint_of_the_settings_counts_more_than_gclouds_and_that_more_than_googles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", "https://from-gcloud.example/")
    assert clients.endpoint(Settings(), "aiplatform") == "https://from-gcloud.example"
    settings = Settings(endpoints={"aiplatform": "https://private.example"})
    assert clients.endpoint(settings, "aiplatform") == "https://private.example"


def test_a_token_is_never_sent_unencrypted_over_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", "http://10.0.0.1:80/")
    with pytest.raises(RequestError, match="use https"):
        clients.endpoint(Settings(), "aiplatform")


def test_calls_name_the_caller(cloud: Cloud, settings: Settings) -> None:
    runs(settings)
    assert cloud.requests[-1].headers["x-goog-api-client"].startswith("vertex-gpu-pipelines/")


def test_a_read_is_repeated_through_faults(cloud: Cloud, settings: Settings) -> None:
    cloud.fail(LIST, status(503), status(429))
    assert runs(settings) == []
    assert [call.method for call in cloud.requests] == [LIST] * 3


def test_a_call_that_google_refuses_is_not_repeated(cloud: Cloud, settings: Settings) -> None:
    cloud.fail(LIST, status(403))
    with pytest.raises(WorkFailed), explain_errors("list", settings):
        runs(settings)
    assert len(cloud.requests) == 1


def test_repeating_ends(cloud: Cloud, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "CALL_S", 0.2)
    cloud.fail(LIST, status(503, "still down"), forever=True)
    with pytest.raises(WorkFailed, match="still down"), explain_errors("list", settings):
        runs(settings)


def test_without_credentials_the_commands_that_give_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/key.json")
    clients.credentials.cache_clear()
    with pytest.raises(RequestError, match="gcloud auth application-default login"):
        clients.credentials()


def test_gclouds_own_variable_gives_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLOUDSDK_AUTH_ACCESS_TOKEN", "token")
    clients.credentials.cache_clear()
    assert clients.credentials().token == "token"
    clients.credentials.cache_clear()


@pytest.mark.parametrize("what", ["project", "bucket"])
def test_a_setting_that_is_needed_and_missing_is_named(what: str) -> None:
    with pytest.raises(RequestError, match=f"PIPELINES_{what.upper()}"):
        getattr(clients, what)(Settings())


def test_a_long_wait_is_explained(
    cloud: Cloud, settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clients, "NOTICE_AFTER", 2)
    cloud.fail(LIST, status(503))
    runs(settings)
    assert capsys.readouterr().err == ""
    cloud.fail(LIST, status(503), status(503))
    runs(settings)
    assert "no answer from Google yet; trying again for up to 120 s" in capsys.readouterr().err


@pytest.mark.parametrize("region", ["evil.test/x", "evil.test#", "evil.test?", "a@evil.test:1", "", "us\n"])
def test_a_region_that_a_document_names_does_not_lead_a_token_elsewhere(
    region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run's spec and a ladder in the bucket name regions, and others may write both."""
    monkeypatch.delenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM", raising=False)
    with pytest.raises(RequestError, match="is not a region"):
        clients.endpoint(Settings().model_copy(update={"region": region}), "aiplatform")
    with pytest.raises(ValueError, match="not a host of Google's"):
        google_api.address(f"{region}-aiplatform")
