"""What a test file may change in its process, and does not leave to the next file of its worker."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Clients and credentials that are made once in a process, from the environment of that moment.
SIGN_INS = {
    "vgp.vertex.clients": ("credentials",),
    "vgp.base.storage.client": ("_client",),
    "vgp.base.storage.bigquery.client": ("_client", "_reader"),
}


def sign_out() -> None:
    """Whoever asks Google next does so as the environment is then. What was never imported is not."""
    for module, names in SIGN_INS.items():
        for name in names if module in sys.modules else ():
            getattr(sys.modules[module], name).cache_clear()


@contextmanager
def as_found(temporary: Path) -> Iterator[None]:
    """Leaves environment, folder and import path as they were, nobody signed in, and no module of a file below
    `temporary`.

    What libraries add to the import path when they are first imported stays: they are imported once.
    """
    environment, folder, path, finders = dict(os.environ), os.getcwd(), list(sys.path), list(sys.meta_path)
    sign_out()
    try:
        yield
    finally:
        sign_out()
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        ours = str(temporary)
        sys.path[:] = path + [entry for entry in sys.path if entry not in path and not entry.startswith(ours)]
        stay = [finder for finder in sys.meta_path if not str(getattr(finder, "root", "")).startswith(ours)]
        sys.meta_path[:] = [finder for finder in finders if finder not in stay] + stay
        for name in [name for name, module in sys.modules.copy().items() if _file(module).startswith(ours)]:
            del sys.modules[name]


def _file(module: object) -> str:
    return str(getattr(module, "__file__", None) or "")
