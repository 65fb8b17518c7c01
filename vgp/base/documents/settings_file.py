"""Where pipelines.toml is: like git's folder, it is found from the current folder upward."""

import os
from pathlib import Path

from vgp.base.errors import RequestError

FILE_NAME = "pipelines.toml"


def settings_file() -> Path | None:
    """The nearest pipelines.toml, from the current folder upward.

    Raises:
        RequestError: it lies above, and is neither the user's nor of the owner of this folder: code would be run that
            somebody put into a parent folder, /tmp say. Or a folder on the way cannot be read.
    """
    try:
        here = Path.cwd()
        for depth, folder in enumerate([here, *here.parents]):
            path = folder / FILE_NAME
            if path.is_file():
                if depth and path.stat().st_uid not in (os.getuid(), 0, here.stat().st_uid):
                    raise RequestError(f"{path} belongs to another user. To use it all the same: --settings {path}.")
                return Path(*[".."] * depth, FILE_NAME)
    except OSError as error:
        raise RequestError(f"{error.filename or 'the current folder'} cannot be read: {error.strerror}.") from None
    return None
