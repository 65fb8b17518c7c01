"""Calls of APIs for which no generated REST client is installed: Compute Engine, IAM, Cloud Billing, Cloud Build.

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
    """Sends a GET, or a POST if there is a body, and returns the JSON object of the response.

    `retry` and `timeout` (seconds) come from clients.reading() or clients.once(), as for generated clients.

    Raises:
        google.api_core.exceptions.GoogleAPICallError: the API refused.
        requests.RequestException: there was no response, or no JSON object in it.
    """
    import requests

    def send() -> JsonObject:
        response = _send(settings, api, path, query, body, timeout)
        content = response.json()
        if not isinstance(content, dict):
            raise requests.JSONDecodeError("no JSON object", response.text[:80], 0)
        return content

    content: JsonObject = retry(send)() if retry else send()
    return content


def now(settings: Settings, api: str, path: str, fields: str = "name") -> datetime:
    """Returns the time on Google's clock, from the response to a GET of `path`, or the time of this machine.

    Args:
        path: A resource or list; the response is 404 if the resource does not exist, and has the time, too.
        fields: The fields to request, as a small response is enough.

    Raises: the errors of `call`.
    """
    from google.api_core import exceptions

    try:
        response = clients.repeating()(
            lambda: _send(settings, api, path, {"fields": fields}, None, clients.ATTEMPT_S)
        )()
    except exceptions.NotFound as error:
        response = error.response
    try:
        time = parsedate_to_datetime(response.headers["Date"])
    except (KeyError, ValueError):
        return datetime.now(UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _send(
    settings: Settings, api: str, path: str, query: JsonObject | None, body: object, timeout: float
) -> "Response":
    from google.api_core import exceptions

    url, method = f"{clients.endpoint(settings, api)}/{path}", "GET" if body is None else "POST"
    with clients.session(settings) as session:
        response = session.request(method, url, params=query, json=body, timeout=timeout)
    if not response.ok:
        raise exceptions.from_http_response(response)
    return response


def pages(
    settings: Settings, api: str, path: str, *, query: JsonObject, retry: "Retry | None" = None, timeout: float
) -> Iterator[JsonObject]:
    """Yields every page of a list."""
    token = ""
    while True:
        more = {"pageToken": token} if token else {}
        page = call(settings, api, path, query={**query, **more}, retry=retry, timeout=timeout)
        yield page
        token = page.get("nextPageToken", "")
        if not token:
            return
