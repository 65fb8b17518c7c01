"""The exit codes of all steps, and the exceptions behind them."""

import errno
import os
import sys
import traceback
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from vgp.base.text.printable import printable

P = ParamSpec("P")
R = TypeVar("R")

EXIT_FAILED = 1
EXIT_USER_ERROR = 2
# EX_UNAVAILABLE of sysexits.h: a store could not be reached; the launcher retries.
EXIT_UNAVAILABLE = 69
# EX_TEMPFAIL of sysexits.h: "the user is invited to retry".
EXIT_PREEMPTED = 75
#: If this variable is set, errors show their traceback, which includes the user's code.
DEBUG = "TRAINING_DEBUG"
#: Errors of a file system whose store does not answer, such as Cloud Storage under /gcs.
_UNAVAILABLE = (errno.EIO, errno.ESTALE, errno.ENOTCONN)


class UserError(Exception):
    """Wrong input or data; the message has the value, the rule that it breaks, and the fix."""


class Preempted(Exception):
    """A stop of the training on request, after saving a checkpoint; a new start resumes."""


class ProcessFailed(Exception):
    """A failed or killed training process; the message has its name and its traceback or last output."""


class MachineLost(ProcessFailed):
    """Another machine of the job stopped or never started; the job resumes on other machines."""


class StoreDown(ProcessFailed, ConnectionError):
    """A store that could not be reached before the deadline; the step can be retried unchanged."""


def is_store_down(error: BaseException) -> bool:
    """Whether the only cause is a store that does not answer, also behind a UserError that explains it."""
    cause = error.__context__ if isinstance(error, UserError) else error
    return isinstance(cause, StoreDown) or (isinstance(cause, OSError) and cause.errno in _UNAVAILABLE)


def exits(function: Callable[P, R]) -> Callable[P, R]:
    """Converts the expected exceptions into a line on stderr and an exit code, without a traceback.

    For entry points only (`vgp.steps.calls`), so that a step's log ends with the reason.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            if os.environ.get(DEBUG):
                traceback.print_exception(error)
            print(f"error: {printable(error)}", file=sys.stderr, flush=True)
            raise SystemExit(EXIT_UNAVAILABLE if is_store_down(error) else EXIT_USER_ERROR) from None
        except (Preempted, MachineLost) as stop:
            print(f"stopped: {printable(stop)}", file=sys.stderr, flush=True)
            raise SystemExit(EXIT_PREEMPTED) from None
        except ProcessFailed as failure:
            print(f"failed: {printable(failure)}", file=sys.stderr, flush=True)
            raise SystemExit(EXIT_UNAVAILABLE if is_store_down(failure) else EXIT_FAILED) from None
        except OSError as error:
            if not is_store_down(error):
                raise
            print(f"failed: {printable(error)}", file=sys.stderr, flush=True)
            raise SystemExit(EXIT_UNAVAILABLE) from None

    return run
