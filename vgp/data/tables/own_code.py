"""Errors that a task's own Python raises: in one line, with the line of their code that raised them."""

import sys
import sysconfig
import traceback
from pathlib import Path

import vgp

#: Code of others: the standard library, installed packages, and this library.
_LIBRARIES = tuple(Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_PACKAGE = Path(vgp.__file__).resolve().parent


def spoken(error: BaseException) -> str:
    """`churn.py:31: ValueError: 'premium' is no plan`; without a place where no line of the user's led to it."""
    message = " ".join(str(error).split())
    what = f"{type(error).__name__}: {message}" if message else type(error).__name__
    place = _line(error)
    return f"{place}: {what}" if place else what


def _line(error: BaseException) -> str:
    """The innermost line of the user's, `file.py:12`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_own(frame.filename):
            return f"{frame.filename}:{frame.lineno}"
    return ""


def _is_own(filename: str) -> bool:
    path = Path(filename).resolve()
    if filename.startswith("<") or path.is_relative_to(Path(sys.prefix).resolve()):
        return False
    return not any(path.is_relative_to(library) for library in (_PACKAGE, *_LIBRARIES))
