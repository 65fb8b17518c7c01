"""The archive of a project's own code, which `vgp submit --code` stores and each step of the run unpacks.

An archive is an uncompressed tar file named by the SHA-256 of its bytes, `gs://BUCKET/code/<sha256>.tar`, so a step
can verify it before it imports anything. Equal files make equal bytes on every machine: entries are sorted and carry
neither times nor owners, and there is no compression, because its bytes depend on the version of zlib.
"""

import hashlib
import io
import re
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from vgp.base.exits import UserError

#: Code is small; 10 MiB is far above it and far below data.
MOST_BYTES = 10 << 20
FOLDER = "code"
_NAME = re.compile(r"(?:^|/)([0-9a-f]{64})\.tar")


def pack(root: Path, names: Sequence[str]) -> bytes:
    """Returns the files `names` below `root` as a tar file."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(names):
            content = (root / name).read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), file_mode(root / name)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def read_files(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Yields name and content of each file in an archive that `pack` made."""
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
        for entry in tar:
            file = tar.extractfile(entry)
            assert file is not None, "an archive holds files only"
            yield entry.name, file.read()


def file_mode(path: Path) -> int:
    """Returns 0o755 for an executable file and 0o644 for any other."""
    return 0o755 if path.stat().st_mode & 0o100 else 0o644


def file_name(content: bytes) -> str:
    return f"{hashlib.sha256(content).hexdigest()}.tar"


def digest_of(uri: str) -> str:
    """Returns the SHA-256 in the name of an archive, in hexadecimal.

    Raises:
        UserError: the URI does not name an archive.
    """
    match = _NAME.search(uri)
    if match is None or not uri.endswith(match[0]):
        raise UserError(
            f"{uri} is not an archive of code: its name must be <sha256>.tar, as vgp submit --code writes it."
        )
    return match[1]


def unpack(content: bytes, uri: str, folder: Path) -> None:
    """Verifies an archive and writes its files below `folder`.

    Raises:
        UserError: the bytes are not those that the name of the archive promises, or are no tar file.
    """
    expected, arrived = digest_of(uri), hashlib.sha256(content).hexdigest()
    if arrived != expected:
        raise UserError(
            f"{uri} was changed after its upload: the SHA-256 of its bytes is {arrived}. Nothing of it was imported. "
            "Delete the object and submit again with --code, which uploads it again."
        )
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, OSError) as error:
        raise UserError(f"{uri} cannot be unpacked: {error}.") from None
