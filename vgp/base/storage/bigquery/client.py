"""Google's clients of BigQuery, one per process, with readable errors.

They honour BIGQUERY_EMULATOR_HOST (of Google's own client: a URL) and BIGQUERY_STORAGE_EMULATOR_HOST (host:port).
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from vgp.base import google_api
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import ProcessFailed, StoreDown, UserError
from vgp.base.retry import Pauses, poll
from vgp.base.storage.client import is_down

if TYPE_CHECKING:
    from google.api_core.retry import Retry
    from google.auth.credentials import Credentials
    from google.cloud import bigquery
    from google.cloud.bigquery import LoadJob, QueryJob
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient

STORAGE_EMULATOR = "BIGQUERY_STORAGE_EMULATOR_HOST"
#: Deadline in seconds for retries when BigQuery does not answer.
DEADLINE_S = 120.0
#: Explanation of each quota error, by BigQuery's reason: https://cloud.google.com/bigquery/docs/error-messages.
QUOTAS = {
    "quotaExceeded": "a quota of the project is used up for now: start the step again later, or ask for more under "
    "IAM & Admin > Quotas in the console",
    "rateLimitExceeded": "too many jobs at a time: start the step again in a few minutes",
    "jobRateLimitExceeded": "too many jobs at a time: start the step again in a few minutes",
    "resourcesExceeded": "the query is too large for the project's slots: let a .sql file do a part of it into a "
    "table first, or set the task's option engine to duckdb",
    "responseTooLarge": "the result is too large for a query without a table, which is a bug of vgp: report it",
    "bytesBilledLimitExceeded": "it would read more than max_gb allows: raise max_gb in [steps.prepare.bigquery]",
    "billingTierLimitExceeded": "the project's billing does not allow it",
    "billingNotEnabled": "the project has no billing: link an account under Billing in the console",
}


class Refused(UserError):
    """A query that BigQuery refuses or cannot compute.

    Args:
        reason: BigQuery's message, in one line.
    """

    def __init__(self, message: str, reason: str):
        super().__init__(message)
        self.reason = reason


def project(chosen: str = "") -> str:
    """Returns the project that queries run in and are billed to.

    Raises:
        UserError: neither the settings, the environment nor the credentials name a project.
    """
    if name := chosen or os.environ.get("GOOGLE_CLOUD_PROJECT", ""):
        return name
    _, name = _credentials()
    if not name:
        raise UserError(
            "BigQuery needs a project to bill queries to: set `project` in [steps.prepare.bigquery] of "
            "pipelines.toml, or the variable GOOGLE_CLOUD_PROJECT, or run `gcloud config set project PROJECT`."
        )
    return name


def client(project: str) -> "bigquery.Client":
    return _client(project, os.getpid())


def reader() -> "BigQueryReadClient":
    return _reader(os.getpid())


@cache
def _client(project: str, process: int) -> "bigquery.Client":
    from google.cloud import bigquery

    with explain_errors("BigQuery"):
        return bigquery.Client(project=project, credentials=_credentials()[0])


@cache
def _reader(process: int) -> "BigQueryReadClient":
    from google.cloud.bigquery_storage_v1 import BigQueryReadClient

    with explain_errors("BigQuery"):
        if not (emulator := os.environ.get(STORAGE_EMULATOR)):
            return BigQueryReadClient(credentials=_credentials()[0])
        import grpc
        from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport

        options = [("grpc.max_receive_message_length", -1)]
        return BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=grpc.insecure_channel(emulator, options)))


def drop_clients() -> None:
    """Drops the cached clients, so that the next use creates them from the environment."""
    _client.cache_clear()
    _reader.cache_clear()


def _credentials() -> "tuple[Credentials, str]":
    """Returns the default credentials and their project; anonymous credentials for an emulator."""
    from google.auth.credentials import AnonymousCredentials

    try:
        return google_api.load_credentials("BigQuery")
    except UserError:
        if os.environ.get("BIGQUERY_EMULATOR_HOST"):
            return AnonymousCredentials(), ""
        raise


def default_retry() -> "Retry":
    """Returns the client's own retry, with the deadline `DEADLINE_S`."""
    from google.cloud.bigquery.retry import DEFAULT_RETRY

    return DEFAULT_RETRY.with_timeout(DEADLINE_S)


def wait(job: "QueryJob | LoadJob", pauses: Pauses, on_wait: Callable[[float], None] = lambda lasted_s: None) -> None:
    """Waits until a job has ended, successfully or not."""
    looks = 0

    def is_done() -> bool | None:
        nonlocal looks
        if looks and job.state != "DONE":
            job.reload(retry=default_retry(), timeout=60)
        looks += 1
        return job.state == "DONE" or None

    poll(is_done, pauses, on_wait=on_wait)


@contextmanager
def explain_errors(title: str) -> Iterator[None]:
    """Raises Google's errors as UserError, if the user can fix them, or as ProcessFailed or StoreDown, in one line.

    Args:
        title: The table or query, for messages.
    """
    from google.api_core.exceptions import BadRequest, Conflict, Forbidden, GoogleAPIError, NotFound, Unauthorized
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    try:
        yield
    except GoogleAPIError as error:
        if (reason := reason_of(error)) in QUOTAS:
            raise UserError(f"{title}: {QUOTAS[reason]}. BigQuery's message: {sentence(error)}") from None
        if isinstance(error, Forbidden | Unauthorized):
            raise UserError(
                f"{title} may not be read: {sentence(error)} {_describe_access(str(error))}".strip()
            ) from None
        if isinstance(error, NotFound):
            raise UserError(f"{title} does not exist: {sentence(error)}") from None
        if isinstance(error, BadRequest | Conflict):
            raise Refused(f"{title} is refused by BigQuery: {sentence(error)}", sentence(error)) from None
        failure = StoreDown if is_down(error) else ProcessFailed
        raise failure(f"{title} failed in BigQuery: {sentence(error)}") from None
    except (GoogleAuthError, RequestException) as error:
        failure = StoreDown if is_down(error) else ProcessFailed
        raise failure(f"{title}: BigQuery could not be reached: {type(error).__name__}: {error}") from None


def reason_of(error: BaseException) -> str:
    """Returns BigQuery's reason of an error, such as `quotaExceeded`, or ""."""
    return str(_first_detail(error).get("reason", ""))


def _first_detail(error: BaseException) -> JsonObject:
    """Returns BigQuery's first error detail; the message of a failed job repeats all of them."""
    details = getattr(error, "errors", None) or [{}]
    return details[0] if isinstance(details[0], dict) else {}


def sentence(error: BaseException) -> str:
    """Returns BigQuery's message in one line, without the prefixes of the client."""
    cause = getattr(error, "cause", None) or error
    text = str(_first_detail(cause).get("message") or getattr(cause, "message", "") or cause)
    text = re.sub(r"^(GET|POST|PUT|PATCH|DELETE) \S+?(?:\?\S+)?: ", "", text).partition("\n")[0].strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _describe_access(text: str) -> str:
    if "VPC Service Controls" in text:
        return ""
    if "jobs.create" in text:
        return "The account needs roles/bigquery.user on the project that pays."
    if "readsessions" in text:
        return "The account needs roles/bigquery.readSessionUser (in roles/bigquery.user) on the project that pays."
    return "The account needs roles/bigquery.dataViewer on its dataset."
