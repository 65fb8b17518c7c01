"""The project's code that came with the run, on top of the files in the image."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile

from vgp.protocol.launching.folders import path_of
from vgp.protocol.launching.request import Mistake


def use_code(uri: str) -> None:
    """Unpacks the archive <sha256>.tar into a new folder and starts the command there.

    Files and folders of the current folder that the archive lacks are linked into the new one.
    """
    path = path_of(uri)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise Mistake(f"the code {uri} cannot be read ({error.strerror}).") from None
    if hashlib.sha256(data).hexdigest() + ".tar" != os.path.basename(path):
        raise Mistake(f"the code {uri} was changed after its upload. Delete it and submit again with --code.")
    folder, image = tempfile.mkdtemp(prefix="code-"), os.getcwd()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder)  # bytes that the user's own machine packed
    for name in set(os.listdir(image)) - set(os.listdir(folder)):
        os.symlink(os.path.join(image, name), os.path.join(folder, name))
    os.chdir(folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH") or folder])
