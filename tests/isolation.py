"""Restores the process after each test file, so that the next file of the same worker starts from a known state."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Functions that cache clients or credentials made from the environment of their first call, by module.
SIGN_INS = {
    "vgp.vertex.clients": ("credentials",),
    "vgp.base.storage.client": ("_client",),
    "vgp.base.storage.bigquery.client": ("_client", "_reader"),
}


def sign_out() -> None:
    """Forgets cached clients and credentials, so that the next call reads the environment again."""
    for module, names in SIGN_INS.items():
        for name in names if module in sys.modules else ():
            getattr(sys.modules[module], name).cache_clear()


@contextmanager
def as_found(temporary: Path) -> Iterator[None]:
    """Restores environment, folder, recursion limit and import path; drops sign-ins and modules below `temporary`.

    Entries that libraries add to the import path at their first import stay, because they are imported once.
    PyTorch's compiler raises the recursion limit.
    """
    environment, folder, path, finders = dict(os.environ), os.getcwd(), list(sys.path), list(sys.meta_path)
    depth = sys.getrecursionlimit()
    sign_out()
    try:
        yield
    finally:
        sign_out()
        sys.setrecursionlimit(depth)
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
