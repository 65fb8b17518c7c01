"""The log line of a call that Google did not answer."""

import pytest
from google.api_core.exceptions import ServiceUnavailable

from vgp.launch.capacity.outage_retry import reason

STORAGE = "('Request failed with status code', 503, 'Expected one of', <HTTPStatus.OK: 200>)"


@pytest.mark.parametrize(
    "text",
    [
        "GET https://us-central1-aiplatform.googleapis.com/v1/projects/p/x?a=b: Try later.",
        'GET https://storage.googleapis.com/b/o: {"error": {"code": 503, "message": "Try later."}}: ' + STORAGE,
        f"POST https://storage.googleapis.com/upload: Try later.: {STORAGE}",
        "Try later.",
    ],
)
def test_a_reason_is_googles_own_words(text: str) -> None:
    assert reason(ServiceUnavailable(text)) == "Google answers 503: Try later."


def test_an_error_that_is_not_googles_is_reported_unchanged() -> None:
    assert reason(ServiceUnavailable('{"error": 3}')) == 'Google answers 503: {"error": 3}'
    assert reason(ServiceUnavailable("[1]")) == "Google answers 503: [1]"
