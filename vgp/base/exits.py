"""How work ends: the exit codes of every step, and the one exception that is the user's to fix."""

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
# EX_UNAVAILABLE of sysexits.h: a store could not be reached; a launcher tries the work again.
EXIT_UNAVAILABLE = 69
# EX_TEMPFAIL of sysexits.h: "the user is invited to retry".
EXIT_PREEMPTED = 75
#: Set, it shows the traceback of an error, that of the user's own code among them.
DEBUG = "TRAINING_DEBUG"
#: What a file system raises whose store does not answer, such as Cloud Storage below /gcs.
_UNAVAILABLE = (errno.EIO, errno.ESTALE, errno.ENOTCONN)


class UserError(Exception):
    """The request or the data is wrong: says what was given, the rule it breaks, and the fix."""


class Preempted(Exception):
    """Training stopped on request after saving a checkpoint; starting it again resumes."""


class ProcessFailed(Exception):
    """A training process failed or was killed; names it and holds its traceback or last words."""


class MachineLost(ProcessFailed):
    """Another machine of the job is gone, or never came: nothing is wrong with the work, which goes on elsewhere."""


class StoreDown(ProcessFailed, ConnectionError):
    """A store could not be reached for as long as it was waited for: the work is to be tried again, as it is."""


def is_store_down(error: BaseException) -> bool:
    """Whether a store that does not answer is all that is wrong, also where a sentence has taken its error's place."""
    cause = error.__context__ if isinstance(error, UserError) else error
    return isinstance(cause, StoreDown) or (isinstance(cause, OSError) and cause.errno in _UNAVAILABLE)


def exits(function: Callable[P, R]) -> Callable[P, R]:
    """Turns the expected endings into a line on stderr and an exit code, without a traceback.

    For the entry points only (`vgp.steps.calls`), so that a step's log in the console ends with the reason.
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
