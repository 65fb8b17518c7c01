"""The one way in which the tool writes a file: whole or not at all."""

import os
import stat
import tempfile
from pathlib import Path

from vgp.base.errors import RequestError


def write(path: Path, content: str | bytes) -> None:
    """Makes or replaces the file: a reader sees the old content or the new. A link stays a link, and the rights stay.

    Raises:
        RequestError: it cannot be written.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise RequestError(f"{path} cannot be written: {error.strerror or error}.") from None


def _replace(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = _mode(target)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name[:40]}.", delete=False) as file:
        scratch = Path(file.name)
        try:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            scratch.chmod(mode)
            scratch.replace(target)
        except BaseException:  # an interrupt, too, leaves nothing behind
            scratch.unlink(missing_ok=True)
            raise


def _mode(target: Path) -> int:
    """The rights of the file, or those of a new one; raises OSError where something else is in its place."""
    if not target.exists():
        return 0o644
    mode = target.stat().st_mode
    if not stat.S_ISREG(mode):
        raise OSError("it is no regular file")
    return stat.S_IMODE(mode)
