"""A JSON body sent to somebody's address: encrypted, to the public Internet, once or twice, in bounded time.

An address may be a secret, so no message here holds more of it than its host. A run must not become a way into the
network that it runs in: an address that leads to a private, link-local or otherwise special one, such as the server
that gives credentials at 169.254.169.254, is refused. The name is looked up once, and what was looked up is connected
to, so that a second answer of the name server changes nothing.
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

#: Seconds that one try may take in all, from the look-up of the name on; tries; and the pause between them.
TRY_S, TRIES, PAUSE_S = 10.0, 2, 2.0
_SECRET_NAME = re.compile(r"projects/[a-z0-9.:-]+/secrets/[\w-]{1,255}(?:/versions/(?:[0-9]+|latest))?", re.ASCII)
#: Hosts whose address is what allows to post there: Slack, Discord, Teams, Google Chat; and parameters that are keys.
_KEY_HOSTS = ("slack.com", "discord.com", "discordapp.com", "office.com", "chat.googleapis.com", "logic.azure.com")
_KEY = re.compile(r"[?&](?:key|token|sig|secret|api_?key|access_token)=|/[\w-]{24,}", re.ASCII | re.IGNORECASE)
#: IPv6 addresses that translators (NAT64) turn into the IPv4 address in their last 32 bits.
_NAT64 = 0x0064FF9B << 96
Address = IPv4Address | IPv6Address


class Refused(ValueError):
    """The address is none that may be sent to. The message does not hold it."""


class Undelivered(Exception):
    """What became of the tries, without the address."""


def is_secret_name(text: str) -> bool:
    """Whether it is a name of Secret Manager: projects/P/secrets/S, with /versions/V or without."""
    return bool(_SECRET_NAME.fullmatch(text))


def checked(url: str) -> str:
    """The address, if it may be sent to as far as its text tells.

    Raises:
        Refused: why not.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise Refused("is no address. Write https://HOST/PATH.") from None
    if not url.isascii() or not url.isprintable() or " " in url or not host:
        raise Refused("is no address. Write https://HOST/PATH.")
    if parts.scheme != "https":
        raise Refused(f"begins with {parts.scheme}://, and a summary goes out encrypted only. Write https://HOST/PATH.")
    if parts.username or parts.password:
        raise Refused("must not hold a user or password. Keep the address in Secret Manager.")
    if _is_inside(host):
        raise Refused(f"leads to {host}, inside a network: only addresses of the public Internet are sent to.")
    return url


def may_hold_a_secret(url: str) -> bool:
    """Whether who knows the address may post there, as with Slack's."""
    host = (urlsplit(url).hostname or "").lower()
    return any(host == known or host.endswith(f".{known}") for known in _KEY_HOSTS) or bool(_KEY.search(url[8:]))


def is_public(address: Address) -> bool:
    """Whether an address belongs to the public Internet, also as another form of it carries it."""
    inner: Address | None = None
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if int(address) >> 32 == _NAT64 >> 32:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
    return is_public(inner) if inner else address.is_global and not address.is_multicast and not address.is_reserved


def post(url: str, body: Mapping[str, object], key: str) -> int:
    """Sends the body; returns the status of the answer, 2xx. The same `key` says that it is the same message.

    Raises:
        Refused: the address may not be sent to.
        Undelivered: no try was answered by 2xx.
    """
    checked(url)
    outcomes: list[int | Exception] = []

    def send() -> int | None:
        outcome = _within(TRY_S, lambda: _try(url, json.dumps(body).encode(), key))
        if isinstance(outcome, Refused):
            raise outcome
        outcomes.append(outcome)
        return outcome if isinstance(outcome, int) and not _may_pass(outcome) else None

    status = poll(send, Pauses(PAUSE_S, PAUSE_S, tries=TRIES))
    if status is not None and 200 <= status < 300:
        return status
    tries = f"{len(outcomes)} {'try' if len(outcomes) == 1 else 'tries'}"
    raise Undelivered(f"{urlsplit(url).hostname} {_words(outcomes[-1])} ({tries}).")


def _may_pass(status: int) -> bool:
    return status >= 500 or status in (408, 425, 429)


def _words(outcome: int | Exception) -> str:
    if isinstance(outcome, Exception):
        return str(outcome)
    return f"answered {outcome}{', a redirect, which is not followed' if 300 <= outcome < 400 else ''}"


def _within(seconds: float, work: Callable[[], int | Exception]) -> int | Exception:
    """What `work` returns in that time. Name servers and slow writers know no timeout: a thread that hangs is left."""
    outcome: list[int | Exception] = []

    def finish() -> None:
        try:
            outcome.append(work())
        except Exception as error:  # a thread that dies prints the message, and with it the address
            outcome.append(Undelivered(f"could not be asked ({type(error).__name__})"))

    thread = threading.Thread(target=finish, daemon=True)
    thread.start()
    thread.join(seconds)
    return outcome[0] if outcome else _late(seconds)


def _late(seconds: float) -> Undelivered:
    return Undelivered(f"did not answer within {seconds:g} s")


def _try(url: str, body: bytes, key: str) -> int | Exception:
    """The status of the answer, or what kept it away. Messages of libraries hold the address: none is passed on."""
    from urllib3 import HTTPSConnectionPool, Timeout, exceptions

    parts = urlsplit(url)
    host, port = str(parts.hostname), parts.port or 443
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return Undelivered("has no address in the name service")
    addresses = [ip_address(str(answer[4][0]).partition("%")[0]) for answer in answers]
    addresses.sort(key=lambda address: address.version)  # what Vertex AI's machines surely have is IPv4
    refused = [address for address in addresses if not is_public(address)]
    if refused:
        return Refused(f"leads to {refused[0]}, inside a network: only addresses of the public Internet are sent to.")
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
    except exceptions.NewConnectionError:  # to urllib3 a kind of being late
        return Undelivered("could not be reached")
    except exceptions.TimeoutError:
        return _late(TRY_S)
    except exceptions.SSLError:
        return Undelivered("has no certificate that can be trusted")
    except (exceptions.HTTPError, OSError):
        return Undelivered("broke off")


def _authorities() -> str:
    """The certificates that are trusted: those of REQUESTS_CA_BUNDLE, as for Google's APIs, or the usual ones."""
    import certifi

    return os.environ.get("REQUESTS_CA_BUNDLE") or certifi.where()


def _is_inside(host: str) -> bool:
    try:
        return not is_public(ip_address(host))
    except ValueError:
        name = host.lower().rstrip(".")
        return name == "localhost" or name.endswith((".localhost", ".internal", ".local"))
