"""Calls of the APIs that have no generated REST client here: Compute Engine, IAM, Cloud Billing, Cloud Build.

rest.call(settings, "iam", f"v1/projects/-/serviceAccounts/{email}", **clients.reading())
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.settings import Settings
from vgp.vertex import clients

if TYPE_CHECKING:
    from google.api_core.retry import Retry
    from requests import Response


def call(
    settings: Settings,
    api: str,
    path: str,
    *,
    query: JsonObject | None = None,
    body: object = None,
    retry: "Retry | None" = None,
    timeout: float = clients.ATTEMPT_S,
) -> JsonObject:
    """The JSON object that the API answers: to a POST if there is a body, else to a GET.

    `retry` and `timeout` (seconds) are those of clients.reading() or clients.once(), as for generated clients.

    Raises:
        google.api_core.exceptions.GoogleAPICallError: the API refused.
        requests.RequestException: there was no answer.
    """
    import requests

    def send() -> JsonObject:
        answer = _answer(settings, api, path, query, body, timeout)
        content = answer.json()
        if not isinstance(content, dict):
            raise requests.JSONDecodeError("no JSON object", answer.text[:80], 0)
        return content

    content: JsonObject = retry(send)() if retry else send()
    return content


def now(settings: Settings, api: str, path: str, fields: str = "name") -> datetime:
    """Returns the time on Google's clock, from the response to a GET of `path`; else this machine's.

    `fields` are those that are answered; a list has no `name`.

    The resource may have been deleted.

    Raises:
        as `call`.
    """
    from google.api_core import exceptions

    try:
        answer = clients.repeating()(
            lambda: _answer(settings, api, path, {"fields": fields}, None, clients.ATTEMPT_S)
        )()
    except exceptions.NotFound as error:
        answer = error.response
    try:
        time = parsedate_to_datetime(answer.headers["Date"])
    except (KeyError, ValueError):
        return datetime.now(UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _answer(
    settings: Settings, api: str, path: str, query: JsonObject | None, body: object, timeout: float
) -> "Response":
    from google.api_core import exceptions

    url, method = f"{clients.endpoint(settings, api)}/{path}", "GET" if body is None else "POST"
    with clients.session(settings) as session:
        answer = session.request(method, url, params=query, json=body, timeout=timeout)
    if not answer.ok:
        raise exceptions.from_http_response(answer)
    return answer


def pages(
    settings: Settings, api: str, path: str, *, query: JsonObject, retry: "Retry | None" = None, timeout: float
) -> Iterator[JsonObject]:
    """Every page of a list."""
    token = ""
    while True:
        more = {"pageToken": token} if token else {}
        page = call(settings, api, path, query={**query, **more}, retry=retry, timeout=timeout)
        yield page
        token = page.get("nextPageToken", "")
        if not token:
            return
