"""The two expected ways in which a command ends badly."""


class RequestError(ValueError):
    """The request is wrong: says what was given, the rule it breaks, and the choices or the fix."""

    exit_code = 2

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback: the message says what to do, and the frames are ours."""
        return [f"{type(self).__name__}: {self}"]


class WorkFailed(Exception):
    """The request was right and the work failed. `result`, if any, is what --json prints."""

    def __init__(self, message: str, *, result: object = None, exit_code: int = 1) -> None:
        super().__init__(message)
        self.result = result
        self.exit_code = exit_code

    def _render_traceback_(self) -> list[str]:
        """As of `RequestError`."""
        return [f"{type(self).__name__}: {self}"]


def lacking(error: BaseException | None) -> str:
    """The module whose lack led to an error, also where it was explained as something else; empty if none did."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            return error.name or ""
        error = error.__cause__
    return ""
