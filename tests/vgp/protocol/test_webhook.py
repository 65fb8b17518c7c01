"""A webhook: the allowed addresses, one or two tries, and messages without the address."""

from ipaddress import ip_address
from typing import Any

import pytest

from vgp.base import webhook

from .receiver import Receiver

SECRET = "/services/T0/B0/XXXXXXXXXXXXXXXX?token=abc"
BODY = {"version": 1, "text": "däs"}


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.com/x", "begins with http://"),
        ("ftp://example.com/x", "begins with ftp://"),
        ("example.com", "is not a URL"),
        ("https://", "is not a URL"),
        ("https://exämple.com", "is not a URL"),
        ("https://example.com/a b", "is not a URL"),
        ("https://example.com:99999/", "is not a URL"),
        ("https://example.com/\nHost: x", "is not a URL"),
        ("https://user@example.com", "user or password"),
        ("https://user:secret@example.com", "user or password"),
        ("https://169.254.169.254/computeMetadata/v1/", "inside a network"),
        ("https://metadata.google.internal/computeMetadata/v1/", "inside a network"),
        ("https://METADATA.google.internal./x", "inside a network"),
        ("https://localhost:8443/", "inside a network"),
        ("https://127.0.0.1/", "inside a network"),
        ("https://10.1.2.3/", "inside a network"),
        ("https://192.168.0.1/", "inside a network"),
        ("https://100.64.0.1/", "inside a network"),
        ("https://0.0.0.0/", "inside a network"),
        ("https://224.0.0.1/", "inside a network"),
        ("https://[::1]/", "inside a network"),
        ("https://[fe80::1]/", "inside a network"),
        ("https://[fd00::1]/", "inside a network"),
        ("https://[::ffff:169.254.169.254]/", "inside a network"),
        ("https://[64:ff9b::a9fe:a9fe]/", "inside a network"),
        ("https://[2002:7f00:1::]/", "inside a network"),
    ],
)
def test_an_address_that_may_not_be_sent_to_is_refused(url: str, why: str) -> None:
    with pytest.raises(webhook.Refused, match=why) as error:
        webhook.check_url(url)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["https://example.com", "https://8.8.8.8:8443/x?y=z", "https://[2001:4860:4860::8888]/"]
)
def test_an_address_of_the_public_internet_is_taken(url: str) -> None:
    assert webhook.check_url(url) == url


@pytest.mark.parametrize("name", ["2130706433", "0x7f.1", "127.1"])
def test_what_a_name_leads_to_counts_and_not_how_it_is_written(name: str) -> None:
    with pytest.raises(webhook.Refused, match="leads to 127.0.0.1, inside a network"):
        webhook.post_body(f"https://{name}/", BODY, "k")


def test_the_body_and_the_key_arrive(receiver: Receiver) -> None:
    assert webhook.post_body(receiver.url + SECRET, BODY, "key-1") == 200
    ((path, headers, body),) = receiver.requests
    assert (path, body, headers["Idempotency-Key"]) == (SECRET, BODY, "key-1")
    assert headers["Content-Type"] == "application/json" and headers["Host"] == receiver.url.removeprefix("https://")


@pytest.mark.parametrize(
    ("answers", "requests", "words"),
    [
        ([500], 2, r"answered 500 \(2 tries\)"),
        (["hang"], 2, r"did not answer within 60 s \(2 tries\)"),
        (["drip"], 2, r"did not answer within 60 s \(2 tries\)"),
        ([302], 1, r"answered 302, a redirect, which is not followed \(1 try\)"),
        ([404], 1, r"answered 404 \(1 try\)"),
    ],
)
def test_a_failed_delivery_is_reported_without_the_address(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, answers: list[Any], requests: int, words: str
) -> None:
    receiver.answers = answers
    receiver.lose_patience(monkeypatch)
    with pytest.raises(webhook.Undelivered, match=words) as error:
        webhook.post_body(receiver.url + SECRET, BODY, "key-1")
    assert [request[0] for request in receiver.requests] == [SECRET] * requests
    assert "services" not in str(error.value) and "token" not in str(error.value)


@pytest.mark.parametrize("first", [503, 429, "hang"])
def test_a_second_try_carries_the_same_key(receiver: Receiver, monkeypatch: pytest.MonkeyPatch, first: Any) -> None:
    receiver.answers = [first, 204]
    receiver.lose_patience(monkeypatch)
    assert webhook.post_body(receiver.url, BODY, "key-1") == 204
    assert [request[1]["Idempotency-Key"] for request in receiver.requests] == ["key-1", "key-1"]


def test_an_untrusted_certificate_gets_nothing(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REQUESTS_CA_BUNDLE")
    with pytest.raises(webhook.Undelivered, match="no certificate that can be trusted"):
        webhook.post_body(receiver.url, BODY, "k")
    assert receiver.requests == []


def test_a_missing_receiver_is_reported_at_once(receiver: Receiver, capfd: pytest.CaptureFixture[str]) -> None:
    receiver.close()
    with pytest.raises(webhook.Undelivered, match="could not be reached"):
        webhook.post_body(receiver.url + SECRET, BODY, "k")
    assert "services" not in "".join(capfd.readouterr())


def test_a_message_of_a_library_does_not_reach_the_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> int:
        raise RuntimeError(f"https://example.com{SECRET}")

    monkeypatch.setattr(webhook, "_try", broken)
    monkeypatch.setattr(webhook, "PAUSE_S", 0.0)
    with pytest.raises(webhook.Undelivered, match=r"could not be reached \(RuntimeError\)") as error:
        webhook.post_body(f"https://example.com{SECRET}", BODY, "k")
    assert "services" not in "".join(capfd.readouterr()) + str(error.value)


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("https://hooks.slack.com/services/T/B/x", True),
        ("https://discord.com/api/webhooks/1/x", True),
        ("https://x.webhook.office.com/webhookb2/1", True),
        ("https://chat.googleapis.com/v1/spaces/A/messages?key=1&token=2", True),
        ("https://example.com/hook?token=1", True),
        ("https://example.com/0123456789abcdef0123456789abcdef", True),
        ("https://example.com/runs/notify", False),
        ("https://notslack.com/x", False),
    ],
)
def test_an_address_that_is_as_good_as_a_password_is_known(url: str, known: bool) -> None:
    assert webhook.may_hold_a_secret(url) is known


def test_special_forms_of_an_address_are_looked_through() -> None:
    assert webhook.is_public(ip_address("2002:808:808::"))
    assert not webhook.is_public(ip_address("2002:a9fe:a9fe::"))
    assert webhook.is_public(ip_address("64:ff9b::808:808"))
