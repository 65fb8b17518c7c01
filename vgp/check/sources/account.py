"""What became of the parts of a request that was read: the lines of an account of it."""

from dataclasses import dataclass

#: Stands where a request names no image: for the user to fill in.
IMAGE = "IMAGE"


@dataclass(frozen=True)
class Note:
    """What happened to one field of the input."""

    field: str
    became: str
    dropped: bool = False
