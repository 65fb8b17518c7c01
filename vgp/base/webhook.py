"""Posts a JSON body to a webhook URL: encrypted, to the public Internet, with one retry, in bounded time.

A webhook URL may be a secret, so messages show only its host. A run must not open a way into its own network: private,
link-local and other special IP addresses, such as the metadata server at 169.254.169.254, are refused. The host is
resolved once, and the connection uses that result, so that a second DNS answer cannot change the target.
"""

import json
import os
import re
import socket
import threading
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from vgp.base.retry import Pauses, poll

#: Timeout of one try in seconds, with the DNS look-up; number of tries; pause between them in seconds.
TRY_S, TRIES, PAUSE_S = 10.0, 2, 2.0
_SECRET_NAME = re.compile(r"projects/[a-z0-9.:-]+/secrets/[\w-]{1,255}(?:/versions/(?:[0-9]+|latest))?", re.ASCII)
#: Hosts whose webhook URLs are secrets (Slack, Discord, Teams, Google Chat), and query parameters with keys.
_KEY_HOSTS = ("slack.com", "discord.com", "discordapp.com", "office.com", "chat.googleapis.com", "logic.azure.com")
_KEY = re.compile(r"[?&](?:key|token|sig|secret|api_?key|access_token)=|/[\w-]{24,}", re.ASCII | re.IGNORECASE)
#: IPv6 addresses that translators (NAT64) turn into the IPv4 address in their last 32 bits.
_NAT64 = 0x0064FF9B << 96
Address = IPv4Address | IPv6Address


class Refused(ValueError):
    """A URL that is not allowed. The message does not contain it."""


class Undelivered(Exception):
    """The result of the failed tries, without the URL."""


def is_secret_name(text: str) -> bool:
    """Whether the text is a secret of Secret Manager: projects/P/secrets/S, with or without /versions/V."""
    return bool(_SECRET_NAME.fullmatch(text))


def check_url(url: str) -> str:
    """Returns the URL if its text is allowed.

    Raises:
        Refused: it is not.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise Refused("is not a URL. Write https://HOST/PATH.") from None
    if not url.isascii() or not url.isprintable() or " " in url or not host:
        raise Refused("is not a URL. Write https://HOST/PATH.")
    if parts.scheme != "https":
        raise Refused(f"begins with {parts.scheme}://, but summaries are sent only encrypted. Write https://HOST/PATH.")
    if parts.username or parts.password:
        raise Refused("must not contain a user or password. Store the URL in Secret Manager.")
    if _is_inside(host):
        raise Refused(f"leads to {host}, inside a network: only the public Internet is allowed.")
    return url


def may_hold_a_secret(url: str) -> bool:
    """Whether knowing the URL is enough to post there, as with Slack's."""
    host = (urlsplit(url).hostname or "").lower()
    return any(host == known or host.endswith(f".{known}") for known in _KEY_HOSTS) or bool(_KEY.search(url[8:]))


def is_public(address: Address) -> bool:
    """Whether an IP address, or the IPv4 address embedded in it, belongs to the public Internet."""
    inner: Address | None = None
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if int(address) >> 32 == _NAT64 >> 32:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return is_public(inner) if inner else address.is_global and not address.is_multicast and not address.is_reserved


def post_body(url: str, body: Mapping[str, object], key: str) -> int:
    """Posts the body and returns the 2xx status; `key` is the Idempotency-Key of retries.

    Raises:
        Refused: the URL is not allowed.
        Undelivered: no try got a 2xx status.
    """
    check_url(url)
    outcomes: list[int | Exception] = []

    def send() -> int | None:
        outcome = _run_within(TRY_S, lambda: _try(url, json.dumps(body).encode(), key))
        if isinstance(outcome, Refused):
            raise outcome
        outcomes.append(outcome)
        return outcome if isinstance(outcome, int) and not _may_pass(outcome) else None

    status = poll(send, Pauses(PAUSE_S, PAUSE_S, tries=TRIES))
    if status is not None and 200 <= status < 300:
        return status
    tries = f"{len(outcomes)} {'try' if len(outcomes) == 1 else 'tries'}"
    raise Undelivered(f"{urlsplit(url).hostname} {_describe(outcomes[-1])} ({tries}).")


def _may_pass(status: int) -> bool:
    return status >= 500 or status in (408, 425, 429)


def _describe(outcome: int | Exception) -> str:
    if isinstance(outcome, Exception):
        return str(outcome)
    return f"answered {outcome}{', a redirect, which is not followed' if 300 <= outcome < 400 else ''}"


def _run_within(seconds: float, work: Callable[[], int | Exception]) -> int | Exception:
    """Returns the result of `work`, run in a thread because DNS and slow writes have no timeout, or an error if
    late."""
    outcome: list[int | Exception] = []

    def finish() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # a thread that dies would print the URL
            outcome.append(Undelivered(f"could not be reached ({type(error).__name__})"))

    thread = threading.Thread(target=finish, daemon=True)
    thread.start()
    thread.join(seconds)
    return outcome[0] if outcome else _timeout_error(seconds)


def _timeout_error(seconds: float) -> Undelivered:
    return Undelivered(f"did not answer within {seconds:g} s")


def _try(url: str, body: bytes, key: str) -> int | Exception:
    """Posts once; returns the status or an error, without messages of libraries, which contain the URL."""
    from urllib3 import HTTPSConnectionPool, Timeout, exceptions

    parts = urlsplit(url)
    host, port = str(parts.hostname), parts.port or 443
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return Undelivered("has no address in the name service")
    addresses = [ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]
    addresses.sort(key=lambda address: address.version)  # IPv4 first, which all machines of Vertex AI have
    refused = [address for address in addresses if not is_public(address)]
    if refused:
        return Refused(f"leads to {refused[0]}, inside a network: only the public Internet is allowed.")
    target = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
    headers = {
        "Host": parts.netloc, "Content-Type": "application/json", "Idempotency-Key": key,
        "User-Agent": "vertex-gpu-pipelines",
    }  # fmt: skip
    try:
        with HTTPSConnectionPool(
            str(addresses[0]), port, timeout=Timeout(total=TRY_S), cert_reqs="CERT_REQUIRED", ca_certs=_authorities(),
            server_hostname=host, assert_hostname=host,
        ) as pool:  # fmt: skip
            answer = pool.urlopen(
                "POST", target, body=body, headers=headers, retries=False, redirect=False, preload_content=False
            )
            answer.close()
            return int(answer.status)
    except exceptions.NewConnectionError:  # a subclass of TimeoutError in urllib3
        return Undelivered("could not be reached")
    except exceptions.TimeoutError:
        return _timeout_error(TRY_S)
    except exceptions.SSLError:
        return Undelivered("has no certificate that can be trusted")
    except (exceptions.HTTPError, OSError):
        return Undelivered("broke off")


def _authorities() -> str:
    """Returns the file of trusted certificates: REQUESTS_CA_BUNDLE, as for Google's APIs, or certifi's."""
    import certifi

    return os.environ.get("REQUESTS_CA_BUNDLE") or certifi.where()


def _is_inside(host: str) -> bool:
    try:
        return not is_public(ip_address(host))
    except ValueError:
        name = host.lower().rstrip(".")
        return name == "localhost" or name.endswith((".localhost", ".internal", ".local"))
