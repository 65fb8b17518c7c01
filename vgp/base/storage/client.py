"""Google's client of Cloud Storage, one per process, with retries and readable errors or those of a file system.

It honours STORAGE_EMULATOR_HOST.
"""

import errno
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Protocol, TypedDict, TypeVar, cast

from vgp.base.exits import ProcessFailed, StoreDown, UserError
from vgp.base.google_api import missing_credentials

if TYPE_CHECKING:
    from google.cloud.storage import Bucket, Client

#: Deadline in seconds for reads from a store that does not answer; then the step fails.
READ_DEADLINE_S = 120.0
#: Fix for a bucket that refuses writes.
WRITERS = "(It takes roles/storage.objectUser on the bucket.)"
#: Seconds of retries before a warning.
NOTICE_S = 10.0


Result = TypeVar("Result")


class Trying(Protocol):
    """Wraps a call with retries while the store does not answer."""

    def __call__(self, call: Callable[[], Result], /) -> Callable[[], Result]: ...


class Limits(TypedDict):
    """Arguments of a call of Google's client: the retry, and the timeout of one attempt in seconds."""

    retry: Trying
    timeout: float


class Denied(ProcessFailed, ConnectionError):
    """A refusal by the store, which only a permission changes, not a retry."""


def client() -> "Client":
    return _client(os.getpid())


def bucket(name: str) -> "Bucket":
    return client().bucket(name)


@cache
def _client(process: int) -> "Client":
    """Returns the client of a process, because a forked process must not use its parent's connections."""
    from google.cloud.storage import Client

    with explain_errors("Cloud Storage"):
        return Client()


def read_retry(path: str) -> Trying:
    """Returns the retry for reads."""
    return retry_policy(1, READ_DEADLINE_S, path)


def retry_policy(first_pause_s: float, deadline_s: float, what: str) -> Trying:
    """Returns the client's own retry with this first pause and deadline, and one warning about `what` after
    `NOTICE_S`."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    retry = DEFAULT_RETRY.with_delay(initial=first_pause_s).with_timeout(deadline_s)

    def trying(call: Callable[[], Result]) -> Callable[[], Result]:
        began, has_warned = time.monotonic(), False

        def note(error: Exception) -> None:
            nonlocal has_warned
            if not has_warned and time.monotonic() - began > NOTICE_S:
                has_warned = True
                text = f"warning: {what} cannot be reached ({error}); retrying for up to {deadline_s:.0f} s"
                print(text, file=sys.stderr, flush=True)

        return cast(Callable[[], Result], retry(call, on_error=note))

    return trying


@contextmanager
def explain_denial(path: str, done: str = "read") -> Iterator[None]:
    """Raises missing credentials and permissions as UserError with the fix.

    Args:
        done: Participle of the forbidden operation, for the message.
    """
    from google.api_core.exceptions import Forbidden, Unauthorized
    from google.auth.exceptions import DefaultCredentialsError

    try:
        yield
    except DefaultCredentialsError:
        raise missing_credentials(path) from None
    except (Forbidden, Unauthorized) as error:
        takes = "" if done == "read" else f" {WRITERS}"
        raise UserError(f"{path} may not be {done}: {error.message}{takes}") from None


@contextmanager
def explain_errors(path: str, done: str = "read") -> Iterator[None]:
    """Raises Google's errors as UserError, if the user can fix them, or as ProcessFailed or StoreDown, in one line."""
    from google.api_core.exceptions import GoogleAPIError, NotFound
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import InvalidResponse
    from requests import RequestException

    try:
        with explain_denial(path, done):
            yield
    except NotFound:
        raise UserError(f"{path} does not exist: there is no such bucket or object.") from None
    except (GoogleAPIError, GoogleAuthError, InvalidResponse, RequestException) as error:
        failure = StoreDown if is_down(error) else ProcessFailed
        raise failure(f"{path} could not be reached: {_explain_cause(error)}") from None


@contextmanager
def as_os_errors(path: str) -> Iterator[None]:
    """Raises Google's errors as a file system would: FileNotFoundError, OSError, or Denied and StoreDown."""
    from google.api_core.exceptions import Forbidden, GoogleAPIError, NotFound, Unauthorized
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import DataCorruption
    from requests import RequestException

    try:
        yield
    except NotFound:
        raise FileNotFoundError(errno.ENOENT, "no such object", path) from None
    except DataCorruption:
        raise OSError(errno.EIO, "the bytes do not match the object's checksum", path) from None
    except (Forbidden, Unauthorized) as error:
        raise Denied(f"{path} could not be reached: {_explain_cause(error)}") from None
    except (GoogleAPIError, GoogleAuthError, RequestException) as error:
        failure = StoreDown if is_down(error) else Denied
        raise failure(f"{path} could not be reached: {_explain_cause(error)}") from None


def starts_anew(error: BaseException) -> bool:
    """Whether an upload must restart from its first byte: it arrived damaged, or the server lost its session."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.cloud.storage.exceptions import DataCorruption

    return isinstance(error, DataCorruption) or (isinstance(error, GoogleAPICallError) and error.code in (404, 410))


def is_down(error: Exception) -> bool:
    """Whether the store did not answer or was busy, in contrast to a refusal."""
    from google.api_core.exceptions import RetryError
    from google.auth.exceptions import TransportError
    from requests import RequestException

    code = getattr(error, "code", None) or 0
    return isinstance(error, RetryError | TransportError | RequestException) or code in (408, 429) or code >= 500


def _explain_cause(error: Exception) -> str:
    from google.api_core.exceptions import RetryError

    if isinstance(error, RetryError):  # its text has the duration, and then the last error
        return f"{error.message}: {type(error.cause).__name__}: {error.cause}"
    return f"{type(error).__name__}: {error}"
