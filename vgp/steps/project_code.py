"""Replaces the project's code in the image by the archive that `vgp submit --code` uploaded for the run."""

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from vgp.base.storage import storage
from vgp.base.text.printable import report
from vgp.protocol import code_archive
from vgp.protocol.environment import CODE, CODE_UNPACKED

#: Above MOST_BYTES of files by the headers of thousands of them.
MOST_BYTES = code_archive.MOST_BYTES + (10 << 20)


def import_first(environment: Mapping[str, str] = os.environ) -> None:
    """Puts the run's archive before all other places that this process and its children import from, if it has one.

    Raises:
        UserError: the archive does not exist, is too large, or was changed after its upload.
        ProcessFailed: the store could not be reached.
    """
    uri = environment.get(CODE)
    if not uri or environment.get(CODE_UNPACKED) == uri:
        return
    content = storage.read(uri, most=MOST_BYTES)
    folder = tempfile.mkdtemp(prefix="code-")
    code_archive.unpack(content, uri, Path(folder))
    sys.path.insert(0, folder)
    os.environ[CODE_UNPACKED] = uri
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    report(f"code: {uri} instead of the project's code in the image")
