"""The two expected failures of a command."""


class RequestError(ValueError):
    """A wrong request; the message has the value, the rule that it breaks, and the choices or the fix."""

    exit_code = 2

    def _render_traceback_(self) -> list[str]:
        """Returns the lines that IPython shows instead of a traceback; the frames would not help the user."""
        return [f"{type(self).__name__}: {self}"]


class WorkFailed(Exception):
    """A failure of a valid request; --json prints `result`, if there is one."""

    def __init__(self, message: str, *, result: object = None, exit_code: int = 1) -> None:
        super().__init__(message)
        self.result = result
        self.exit_code = exit_code

    def _render_traceback_(self) -> list[str]:
        """Returns the lines that IPython shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


def missing_module(error: BaseException | None) -> str:
    """Returns the missing module that caused an error, searched along its chain of causes, or ""."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError):
            return error.name or ""
        error = error.__cause__
    return ""
