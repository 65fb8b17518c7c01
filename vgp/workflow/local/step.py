"""The program `python3` of a local run: a step imports from its repository, whatever folder the run was started in.

    python step.py ROOT WORKFLOWS -m kfp.dsl.executor_main ...

Everything else that is started as `python3` is Python as it is.
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
    here = [] if os.path.realpath(workflows) == os.getcwd() else [os.getcwd()]  # a task of the user may lie in it
    sys.path += here
    # Processes that the step starts are Python's own: to them the repository comes first of all.
    places = [root, *here, os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    sys.argv[:] = list(words[1:])
    runpy.run_module(EXECUTOR[1], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
