"""Secrets of Secret Manager, as a training process reads them."""

from collections.abc import Iterator

import pytest

from tools.emulator.cloud import Cloud
from vgp.base import google_api
from vgp.base.exits import UserError

NAME = "projects/test-project/secrets/mlflow-token"


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, without_lookups: None) -> Iterator[Cloud]:
    with Cloud() as cloud:
        for name, value in cloud.environment.items():
            monkeypatch.setenv(name, value)
        yield cloud


def test_the_latest_version_is_read_or_the_one_that_is_named(cloud: Cloud) -> None:
    cloud.secrets.versions["mlflow-token"] = ["old\n", "t0ken\n"]
    assert google_api.read_secret(NAME) == "t0ken"
    assert google_api.read_secret(f"{NAME}/versions/1") == "old"


def test_a_forbidden_file_is_reported_by_name_with_the_role(cloud: Cloud) -> None:
    cloud.secrets.versions["mlflow-token"] = ["t0ken"]
    cloud.policies.missing |= {"secretmanager.versions.access"}
    with pytest.raises(
        UserError, match=rf"the secret {NAME} cannot be read \(HTTPError, 403\).*secretAccessor"
    ) as caught:
        google_api.read_secret(NAME)
    assert "t0ken" not in str(caught.value)


def test_an_address_that_would_send_credentials_unencrypted_is_refused(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER", "http://10.0.0.1")
    with pytest.raises(UserError, match="use https://"):
        google_api.read_secret(NAME)
