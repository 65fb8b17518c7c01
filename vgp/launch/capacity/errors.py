"""What ends a launcher before its job has ended."""


class Superseded(Exception):
    """A newer launcher of the same step has taken over: this one changes nothing any more."""


class Unreachable(Exception):
    """Google has not answered for longer than is waited."""


class Stopped(BaseException):
    """SIGTERM: the run is cancelled, or this machine goes. No `except Exception` may hold it up."""
