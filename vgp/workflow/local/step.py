"""The program `python3` of a local run, which lets a step import from its repository.

    python step.py ROOT WORKFLOWS -m kfp.dsl.executor_main ...

With any other arguments it is plain Python.
"""

import os
import runpy
import sys
from pathlib import Path

EXECUTOR = ["-m", "kfp.dsl.executor_main"]


def main(root: str, workflows: str, *words: str) -> None:
    if list(words[:2]) != EXECUTOR:
        os.execv(sys.executable, [sys.executable, *words])
    from vgp.protocol.imports import search_repository_first

    search_repository_first(root, Path(workflows))
    here = [] if os.path.realpath(workflows) == os.getcwd() else [os.getcwd()]  # it may contain the user's task
    sys.path += here
    # Processes that the step starts run plain Python, which finds the repository by PYTHONPATH.
    places = [root, *here, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    sys.argv[:] = list(words[1:])
    runpy.run_module(EXECUTOR[1], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
