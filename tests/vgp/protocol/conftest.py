"""A receiver that is let in though it is on this machine, and a certificate of its own that is trusted."""

import os
from collections.abc import Iterator
from ipaddress import ip_address
from pathlib import Path

import pytest

from tools.emulator.tunnel import certificate
from vgp.base import webhook

from .receiver import Receiver


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Receiver]:
    bundle = tmp_path / "certificate.pem"
    trusted = os.environ.get("REQUESTS_CA_BUNDLE")  # of a loopback cloud
    bundle.write_bytes((Path(trusted).read_bytes() if trusted else b"") + certificate()[0])
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))
    public = webhook.is_public
    monkeypatch.setattr(webhook, "is_public", lambda address: address == ip_address("127.0.0.1") or public(address))
    monkeypatch.setattr(webhook, "TRY_S", 60.0)
    monkeypatch.setattr(webhook, "PAUSE_S", 0.0)
    receiver = Receiver()
    yield receiver
    receiver.close()
