"""The pytest fixture `cloud`."""

from collections.abc import Iterator

import pytest

from .cloud import Cloud


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A Google Cloud of its own for each test, in which this process and its children find themselves."""
    with Cloud() as cloud:
        for name, value in cloud.environment.items():
            monkeypatch.setenv(name, value)
        yield cloud
        if cloud.crashed:
            raise cloud.crashed
