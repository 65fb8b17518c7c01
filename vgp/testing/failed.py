"""What is raised where a part of a task does not hold."""


class Failed(AssertionError):
    """A part of a task is not as it must be: says what was seen, the rule, and where to look."""


def require(holds: bool, message: str) -> None:
    if not holds:
        raise Failed(message)
