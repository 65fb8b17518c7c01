"""A process that runs commands, to be killed: see tests/killing.py."""

import os
import tempfile
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import StringIO

import kfp.registry
from killing import serve

from vgp.__main__ import main
from vgp.vertex.templates.upload import publish

assert kfp.registry and publish, "imported once, before the forks"


def compile_once() -> None:
    """What compiling imports and prepares, before the forks."""
    quiet = (redirect_stdout(StringIO()), redirect_stderr(StringIO()))
    with tempfile.TemporaryDirectory() as out, quiet[0], quiet[1], suppress(SystemExit):
        main(["compile", "small", "--out", out])


def command(words: list[str]) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    main(words)


if __name__ == "__main__":
    compile_once()
    serve(command)
