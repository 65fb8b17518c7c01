"""Calls of Google's APIs with the step's service account, and secrets of Secret Manager."""

import base64
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.retry import Pauses, retry

if TYPE_CHECKING:
    from google.api_core.retry import Retry
    from google.auth.credentials import Credentials
    from google.auth.transport.requests import AuthorizedSession
    from requests import Response

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
#: Timeout of one attempt in seconds.
ATTEMPT_S = 30.0
#: Deadline in seconds of a read with its retries.
READ_S = 120.0
#: The attempts of a call from a step.
PAUSES = Pauses(first_s=1.0, longest_s=8.0, deadline_s=READ_S, tries=4, jitter=True)
#: Statuses after which the same request may succeed.
BUSY = (408, 429, 500, 502, 503, 504)
_HERE = ("127.0.0.1", "localhost", "::1")


def read(host: str, path: str) -> JsonObject:
    """Returns the JSON object at `path` of `host` (us-central1-aiplatform, secretmanager), retrying transient failures.

    Raises:
        requests.HTTPError: the API refused.
        google.auth.exceptions.GoogleAuthError: the step has no credentials.
        requests.RequestException: the API did not answer.
    """
    answer = _send("GET", host, path)
    answer.raise_for_status()
    return dict(answer.json())


def holds(host: str, path: str) -> bool:
    """Whether a resource exists at `path`. Raises the errors of `read`."""
    answer = _send("GET", host, path)
    if answer.status_code == 404:
        return False
    answer.raise_for_status()
    return True


def write(host: str, path: str, body: Mapping[str, object]) -> None:
    """Creates an idempotent resource, with retries; an existing one (409) is fine. Raises the errors of `read`."""
    answer = _send("POST", host, path, json=body)
    if answer.status_code != 409:
        answer.raise_for_status()


def read_secret(name: str) -> str:
    """Returns the text of the secret projects/P/secrets/S (its latest version) or of .../versions/V.

    Raises:
        UserError: the secret cannot be read. The message has the secret's name, never its text.
    """
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    version = name if "/versions/" in name else f"{name}/versions/latest"
    try:
        answer = read("secretmanager", f"v1/{version}:access")
        return base64.b64decode(answer["payload"]["data"]).decode().strip()
    except (GoogleAuthError, RequestException, LookupError, TypeError, ValueError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        raise UserError(
            f"the secret {name} cannot be read ({type(error).__name__}{f', {status}' if status else ''}): the step's "
            "account needs secretmanager.versions.access (roles/secretmanager.secretAccessor)."
        ) from None


@contextmanager
def session() -> "Iterator[AuthorizedSession]":
    """Yields a `requests` session with the step's service account. Raises google.auth.exceptions.GoogleAuthError."""
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    with AuthorizedSession(google.auth.default(scopes=[SCOPE])[0]) as authorized:
        yield authorized


def load_credentials(api: str) -> "tuple[Credentials, str]":
    """Returns Application Default Credentials and their project, "" if they name none.

    Args:
        api: The API that needs them, for the message.

    Raises:
        UserError: there are none.
    """
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    try:
        credentials, project = google.auth.default(scopes=[SCOPE])
    except DefaultCredentialsError:
        raise missing_credentials(api) from None
    return credentials, project or ""


def missing_credentials(purpose: str) -> UserError:
    """Returns the error for `purpose`, which needs credentials where there are none."""
    return UserError(
        f"{purpose} needs Google credentials and there are none: run `gcloud auth application-default login`."
    )


def is_transient(error: Exception) -> bool:
    """Whether a retry of the call may succeed: Google is busy or down, or the connection was lost.

    https://cloud.google.com/storage/docs/retry-strategy#retryable names 408 too, for which the clients have no class.
    """
    from google.api_core import exceptions
    from requests.exceptions import ChunkedEncodingError, ConnectionError, HTTPError, Timeout

    if isinstance(error, HTTPError):
        return bool(error.response.status_code in BUSY)
    if isinstance(error, exceptions.GoogleAPICallError) and error.code in (408, 501):
        return error.code == 408
    return isinstance(error, exceptions.TooManyRequests | exceptions.ServerError | ConnectionError | Timeout
                      | ChunkedEncodingError)  # fmt: skip


def requested_s(error: Exception) -> float:
    """Returns the seconds in the answer's Retry-After, or 0. Google writes seconds, not a date."""
    value = getattr(getattr(error, "response", None), "headers", {}).get("Retry-After", "")
    return float(value) if value.isdecimal() else 0.0


def retry_policy(
    *,
    first_s: float = 0.5,
    longest_s: float = 15.0,
    deadline_s: float = READ_S,
    on_error: Callable[[Exception], None] | None = None,
) -> "Retry":
    """Returns the `Retry` of Google's clients for idempotent calls: after transient errors.

    Args:
        first_s: Seconds of the first pause; pauses double up to `longest_s`.
        deadline_s: Seconds after which the call fails.
        on_error: Called with each error before a retry.
    """
    from google.api_core.retry import Retry

    return Retry(
        is_transient, initial=first_s, maximum=longest_s, multiplier=2.0, timeout=deadline_s, on_error=on_error
    )


def _send(method: str, host: str, path: str, **body: object) -> "Response":
    """Returns the answer to an idempotent request; also a refusal, after retries if Google is busy."""
    from requests import HTTPError

    with session() as authorized:

        def attempt() -> "Response":
            answer = authorized.request(method, f"{address(host)}/{path}", timeout=ATTEMPT_S, **body)
            if answer.status_code in BUSY:
                answer.raise_for_status()
            return answer

        try:
            return retry(attempt, PAUSES, is_transient=is_transient, requested_s=requested_s)
        except HTTPError as error:
            refused: Response = error.response
            return refused


def address(host: str) -> str:
    """Returns the base URL of an API: gcloud's override (CLOUDSDK_API_ENDPOINT_OVERRIDES_AIPLATFORM), or Google's.

    Raises:
        UserError: the override would send the access token unencrypted over a network.
        ValueError: the host is not a host name; part of it may be a region from a document.
    """
    if not is_label(host):
        raise ValueError(f"{host!r} is not a host of Google's: only letters, digits and - are allowed.")
    variable = f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{host.rpartition('-')[2].upper()}"
    override = os.environ.get(variable)
    if override and not is_private(override):
        raise UserError(f"{variable}={override}: use https://; http:// is allowed only for this machine.")
    return (override or f"https://{host}.googleapis.com").rstrip("/")


def is_label(host: str) -> bool:
    """Whether the text is a single host label, so that HOST.googleapis.com is Google's."""
    return bool(re.fullmatch(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", host))


def is_private(url: str) -> bool:
    """Whether requests to the URL are encrypted (https) or stay on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _HERE)
