"""Replaces the project's code in the image by the archive that `vgp submit --code` uploaded for the run."""

import os
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from vgp.base.storage import download
from vgp.protocol import code_archive
from vgp.protocol.environment import CODE


def import_first(environment: Mapping[str, str] = os.environ) -> None:
    """Puts the run's archive before all other places that this process and its children import from, if it has one.

    Raises:
        UserError: the archive does not exist, is too large, or was changed after its upload.
        ProcessFailed: the store could not be reached.
    """
    if uri := environment.get(CODE):
        _import_first(uri)


@cache
def _import_first(uri: str) -> None:
    code_archive.digest_of(uri)
    folder = Path(tempfile.mkdtemp(prefix="code-"))
    with download.local_copy(uri, most=code_archive.MOST_BYTES) as path:
        code_archive.unpack(Path(path).read_bytes(), uri, folder)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    print(f"code: {uri} instead of the project's code in the image", file=sys.stderr, flush=True)
