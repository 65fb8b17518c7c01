"""Google's client of Cloud Storage: one for each process, patient, its errors in words or as a file system's.

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

if TYPE_CHECKING:
    from google.cloud.storage import Bucket, Client

#: Seconds for which reading from a store that does not answer is tried again; then the step fails.
READ_DEADLINE_S = 120.0
#: What helps where a bucket refuses to be written.
WRITERS = "(It takes roles/storage.objectUser on the bucket.)"
#: Seconds after which a warning says what is being waited for.
NOTICE_S = 10.0


Result = TypeVar("Result")


class Trying(Protocol):
    """Makes a call patient: repeated while the store does not answer."""

    def __call__(self, call: Callable[[], Result], /) -> Callable[[], Result]: ...


class Limits(TypedDict):
    """Arguments of a call of Google's client: how it is repeated, and seconds that one attempt may take."""

    retry: Trying
    timeout: float


class Denied(ProcessFailed, ConnectionError):
    """The store answers, and refuses: trying again changes nothing, a permission does."""


def client() -> "Client":
    return _client(os.getpid())


def bucket(name: str) -> "Bucket":
    return client().bucket(name)


@cache
def _client(process: int) -> "Client":
    """One for each process: a forked one must not use its parent's connections."""
    from google.cloud.storage import Client

    with explained("Cloud Storage"):
        return Client()


def reading(path: str) -> Trying:
    """The patience of whatever reads."""
    return patient(1, READ_DEADLINE_S, path)


def patient(first_pause_s: float, deadline_s: float, what: str) -> Trying:
    """The client's own way to try again, with this first pause and end, and one warning when it takes long."""
    from google.cloud.storage.retry import DEFAULT_RETRY

    retry = DEFAULT_RETRY.with_delay(initial=first_pause_s).with_timeout(deadline_s)

    def trying(call: Callable[[], Result]) -> Callable[[], Result]:
        began, said = time.monotonic(), False

        def note(error: Exception) -> None:
            nonlocal said
            if not said and time.monotonic() - began > NOTICE_S:
                said = True
                text = f"warning: {what} cannot be reached ({error}); trying again for up to {deadline_s:.0f} s"
                print(text, file=sys.stderr, flush=True)

        return cast(Callable[[], Result], retry(call, on_error=note))

    return trying


@contextmanager
def permitted(path: str, done: str = "read") -> Iterator[None]:
    """Says the lack of credentials or of a permission in the words of the user who can mend it.

    Args:
        done: What may not be done with the path.
    """
    from google.api_core.exceptions import Forbidden, Unauthorized
    from google.auth.exceptions import DefaultCredentialsError

    try:
        yield
    except DefaultCredentialsError:
        raise UserError(
            f"{path} needs Google credentials and there are none: run `gcloud auth application-default login`."
        ) from None
    except (Forbidden, Unauthorized) as error:
        takes = "" if done == "read" else f" {WRITERS}"
        raise UserError(f"{path} may not be {done}: {error.message}{takes}") from None


@contextmanager
def explained(path: str, done: str = "read") -> Iterator[None]:
    """Says the errors that only the user can mend in their words, and the others in one line."""
    from google.api_core.exceptions import GoogleAPIError, NotFound
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import InvalidResponse
    from requests import RequestException

    try:
        with permitted(path, done):
            yield
    except NotFound:
        raise UserError(f"{path} does not exist: there is no such bucket or object.") from None
    except (GoogleAPIError, GoogleAuthError, InvalidResponse, RequestException) as error:
        failure = StoreDown if is_down(error) else ProcessFailed
        raise failure(f"{path} could not be reached: {_cause(error)}") from None


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """The client's errors as a file system would raise them."""
    from google.api_core.exceptions import Forbidden, GoogleAPIError, NotFound, Unauthorized
    from google.auth.exceptions import GoogleAuthError
    from google.cloud.storage.exceptions import DataCorruption
    from requests import RequestException

    try:
        yield
    except NotFound:
        raise FileNotFoundError(errno.ENOENT, "no such object", path) from None
    except DataCorruption:
        raise OSError(errno.EIO, "the bytes do not have the object's checksum", path) from None
    except (Forbidden, Unauthorized) as error:
        raise Denied(f"{path} could not be reached: {_cause(error)}") from None
    except (GoogleAPIError, GoogleAuthError, RequestException) as error:
        failure = StoreDown if is_down(error) else Denied
        raise failure(f"{path} could not be reached: {_cause(error)}") from None


def starts_anew(error: BaseException) -> bool:
    """Whether an upload is begun again from its first byte: it arrived damaged, or the server forgot its session."""
    from google.api_core.exceptions import GoogleAPICallError
    from google.cloud.storage.exceptions import DataCorruption

    return isinstance(error, DataCorruption) or (isinstance(error, GoogleAPICallError) and error.code in (404, 410))


def is_down(error: Exception) -> bool:
    """Whether the store did not answer, or was busy: not that it refused what it was asked."""
    from google.api_core.exceptions import RetryError
    from google.auth.exceptions import TransportError
    from requests import RequestException

    code = getattr(error, "code", None) or 0
    return isinstance(error, RetryError | TransportError | RequestException) or code in (408, 429) or code >= 500


def _cause(error: Exception) -> str:
    from google.api_core.exceptions import RetryError

    if isinstance(error, RetryError):  # its own text says how long it tried, and then the last error
        return f"{error.message}: {type(error.cause).__name__}: {error.cause}"
    return f"{type(error).__name__}: {error}"
