"""One start of a run: a child process that runs kfp.local, followed line by line, and the proof of what ran."""

import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from vgp.check.spec.parameters import check_arguments
from vgp.protocol.imports import variables_of_ours
from vgp.workflow.compiling import source_commit
from vgp.workflow.local import local_folder, portable, process, proof
from vgp.workflow.local.local_folder import Run
from vgp.workflow.local.process import Event, events

_LAST_LINES = 20


def execute(run: Run, tell: Callable[[Event], None]) -> list[proof.Step]:
    """Runs the compiled pipeline in the run's folder and returns every task of the DAG with its proven state.

    Raises:
        RequestError: an argument is none that the pipeline can take.
        process.Interrupted: a signal of `process.STOPS` arrived; every process was ended.
    """
    check_arguments(run.spec.parameters, run.arguments)
    command = [sys.executable, "-m", "vgp.workflow.local.worker", str(run.folder), str(run.repository.root)]
    earlier = run.starts()
    with (
        _python3(run) as path,
        run.log.open("a", encoding="utf-8") as log,
        process.group(command, {**_environment(run), "PATH": path}) as child,
    ):
        assert child.stdout
        for event in events(child.stdout, log.write):
            _note(run, event)
            tell(event)
        failed = child.wait() != 0
    now = [start for start in run.starts() if start not in earlier]
    steps = proof.prove(run.spec, run.arguments, now, earlier)
    local_folder.link(run.folder, steps)
    if failed and not run.failed:  # kfp.local itself gave up, before or between the steps
        run.failed = "the run"
    return steps


def _environment(run: Run) -> dict[str, str]:
    return {
        **variables_of_ours(),
        "TRAINING_CHECKPOINTS": str(run.folder / "checkpoints"),
        "TRAINING_PINS": str(run.folder / "pins"),
        "TRAINING_REGISTRY": str(run.registry),
        **({"TRAINING_COMMIT": sha} if (sha := source_commit.current(run.repository.root).of_the_code) else {}),
        **({"TRAINING_NPROC": str(run.nproc)} if run.nproc else {}),
        **({"TRAINING_NODES": str(run.nodes)} if run.nodes else {}),
        "PYTHONUNBUFFERED": "1",
        # What is read and printed does not depend on the terminal's language.
        "PYTHONUTF8": "1",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }


@contextmanager
def _python3(run: Run) -> Iterator[str]:
    """PATH with a `python3` that is this Python, which may be called otherwise and lie in a folder of any name.

    A step that it starts imports from the repository: step.py. A command of the user's finds `python`, and the programs
    of this environment.
    """
    step, repository = Path(__file__).parent / "step.py", run.repository
    words = [sys.executable, str(step), str(repository.root), str(repository.folder)]
    # Where nothing may be executed in /tmp, things may be where people work; a colon would part the path.
    place = None if os.pathsep in str(run.folder) else run.folder
    with tempfile.TemporaryDirectory(prefix=".", dir=place) as scratch:
        for name, started in (("python3", words), ("python", [sys.executable])):
            program = Path(scratch, name)
            program.write_text(f'#!/bin/sh\nexec {shlex.join(started)} "$@"\n', encoding="utf-8")
            program.chmod(0o700)
        yield os.pathsep.join([scratch, *portable.PLACES, os.environ.get("PATH", os.defpath)])


def _note(run: Run, event: Event) -> None:
    now = time.monotonic()
    match event.kind:
        case "started":
            run.seconds[event.step] = -now
            run.last_lines = run.last_lines if run.failed else []
        case "succeeded" | "failed":
            run.seconds[event.step] = run.seconds.get(event.step, -now) + now
            if event.kind == "failed" and not run.failed:  # independent steps and an exit handler run on
                run.failed = event.step
        case "line" if not run.failed:
            run.last_lines = [*run.last_lines, event.text][-_LAST_LINES:]
