"""The settings with which the tests find the loopback cloud; each test signs in anew."""

from collections.abc import Iterator

import pytest
from loopback.cloud import Cloud

from pipelines.settings import Settings, load
from pipelines.vertex import clients


@pytest.fixture
def settings(cloud: Cloud) -> Iterator[Settings]:
    clients.credentials.cache_clear()
    yield load()
    clients.credentials.cache_clear()
