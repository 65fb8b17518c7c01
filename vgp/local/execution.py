"""One run of a pipeline on this machine: a folder, a child process that runs kfp.local, and the proof of what ran.

<out>/<pipeline>-<date>-<time>/
    pipeline.json  arguments.json     what was run
    run.json                          how it ended: every step with state, seconds and outputs
    log.txt                           everything that the steps printed, as they printed it
    checkpoints/                      survive a second start
    prepare/ train/ ...               what each step wrote
    report.html                       the page to look at
"""

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from vgp.errors import RequestError
from vgp.inside.imports import variables_of_ours
from vgp.local import process, proof
from vgp.settings import Repository
from vgp.spec import arguments
from vgp.spec.pipeline_spec import PipelineSpec
from vgp.text.printable import printable

#: kfp's own lines; what a step prints it indents.
_STARTED = re.compile(r"\d\d:\d\d:\d\d\.\d+ - INFO - Executing task '(?P<step>[^']+)'$")
_ENDED = re.compile(
    r"\d\d:\d\d:\d\d\.\d+ - (?:INFO|ERROR) - Task '(?P<step>[^']+)' finished with status (?P<status>\w+)$"
)
#: Lines of kfp itself, which tell a user nothing about their run.
_NOISE = re.compile(r"^\d\d:\d\d:\d\d\.\d+ - INFO - |\[KFP Executor |^-{20,}$|^Task .* outputs:$")


@dataclass
class Run:
    """A run's folder and what is known of its steps."""

    folder: Path
    pipeline: str
    arguments: Mapping[str, Any]
    repository: Repository
    nproc: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    failed: str = ""
    last_words: list[str] = field(default_factory=list)

    @property
    def spec(self) -> Path:
        return self.folder / "pipeline.json"

    def resume_command(self) -> str:
        words = ["pipelines", "run", self.pipeline]
        words += ["--nproc", str(self.nproc)] if self.nproc else []
        if not self.repository.is_nearest():
            words += ["--settings", os.path.relpath(self.repository.file)]
        return shlex.join([*words, "--resume", os.path.relpath(self.folder)])


@dataclass(frozen=True)
class Event:
    """Something a run's output says: a step `started`, `succeeded`, `failed`, or printed a `line`.

    A line without a step comes from kfp.local itself.
    """

    kind: str
    step: str
    text: str = ""


def new_folder(out: Path, pipeline: str) -> Path:
    """An empty folder for a run under `out`.

    Raises:
        RequestError: `out` cannot be written.
    """
    name = f"{pipeline}-{datetime.now():%Y%m%d-%H%M%S}"
    for number in range(1000):
        folder = out / (name if not number else f"{name}-{number}")
        try:
            folder.mkdir(parents=True, exist_ok=False)
            return folder.resolve()
        except FileExistsError:
            if not out.is_dir():
                raise RequestError(f"--out {out} is a file; give a folder.") from None
        except OSError as error:
            raise RequestError(f"--out {out} cannot be written: {error.strerror}.") from None
    raise RequestError(f"--out {out} holds a thousand runs of this second.")


def execute(run: Run, tell: Callable[[Event], None]) -> list[proof.Step]:
    """Runs the compiled pipeline in `run.folder` and returns every task of the DAG with its proven state.

    Raises:
        RequestError: an argument is none that the pipeline can take.
        process.Interrupted: a signal of `process.STOPS` arrived; every process was ended.
    """
    spec = PipelineSpec.read(run.spec)
    arguments.checked(spec.parameters, run.arguments)
    environment = {
        **variables_of_ours(),
        "TRAINING_CHECKPOINTS": str(run.folder / "checkpoints"),
        "PYTHONUNBUFFERED": "1",
        # What is read and printed does not depend on the terminal's language.
        "PYTHONUTF8": "1",
        "PYTHONIOENCODING": "utf-8:backslashreplace",
    }
    if run.nproc:
        environment["TRAINING_NPROC"] = str(run.nproc)
    (run.folder / "arguments.json").write_text(json.dumps(dict(run.arguments), indent=1, sort_keys=True) + "\n")
    command = [sys.executable, "-m", "vgp.local.worker", str(run.spec), str(run.folder / "arguments.json")]
    command += [str(run.folder / "steps"), str(run.folder / "steps" / "reuse")]
    earlier = _folders(run.folder)
    with (
        _python3(run.folder, run.repository) as path,
        (run.folder / "log.txt").open("a", encoding="utf-8") as log,
        process.group(command, {**environment, "PATH": path}) as child,
    ):
        assert child.stdout
        for event in _events(child.stdout, log.write):
            _note(run, event)
            tell(event)
        failed = child.wait() != 0
    now = [folder for folder in _folders(run.folder) if folder not in earlier]
    steps = proof.prove(spec, run.arguments, now, earlier)
    _link(run.folder, steps)
    if failed and not run.failed:  # kfp.local itself gave up, before or between the steps
        run.failed = "the run"
    return steps


@contextmanager
def _python3(scratch: Path, repository: Repository) -> Iterator[str]:
    """PATH with a `python3` that is this Python, which may be called otherwise and lie in a folder of any name.

    A step that it starts imports from the repository: step.py.
    """
    words = [sys.executable, str(Path(__file__).parent / "step.py"), str(repository.root), str(repository.folder)]
    # Where nothing may be executed in /tmp, things may be where people work; a colon would part the path.
    with tempfile.TemporaryDirectory(prefix=".", dir=None if os.pathsep in str(scratch) else scratch) as folder:
        program = Path(folder, "python3")
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        program.chmod(0o700)
        yield os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])


def _note(run: Run, event: Event) -> None:
    now = time.monotonic()
    match event.kind:
        case "started":
            run.seconds[event.step] = -now
            run.last_words = []
        case "succeeded" | "failed":
            run.seconds[event.step] = run.seconds.get(event.step, -now) + now
            run.failed = event.step if event.kind == "failed" else run.failed
        case "line" if not run.failed:
            run.last_words = [*run.last_words[-19:], event.text]


def _events(lines: Iterator[str], keep: Callable[[str], Any]) -> Iterator[Event]:
    """Reads the child's output; what it cannot place is a line of the running step."""
    step, dump_end = "", ""
    for raw in lines:
        keep(raw)
        text = printable(raw).rstrip()
        if found := _STARTED.match(text):
            step = found["step"]
            yield Event("started", step)
        elif found := _ENDED.match(text):
            yield Event("succeeded" if found["status"] == "SUCCESS" else "failed", found["step"])
            step = ""  # what follows until the next step is kfp's listing of the outputs
        elif text.endswith("Got executor_input:"):
            dump_end = " " * (len(text) - len(text.lstrip())) + "}"
        elif dump_end:
            dump_end = "" if text == dump_end else dump_end
        elif text.strip() and not _NOISE.search(text.strip()):
            yield Event("line", step, text.removeprefix("    "))


def _folders(folder: Path) -> list[Path]:
    """What kfp.local wrote for each start of this run, newest first: its names carry the time."""
    return sorted((path for path in (folder / "steps").glob("*-*-*-*") if path.is_dir()), reverse=True)


def _link(folder: Path, steps: list[proof.Step]) -> None:
    """Short ways to what the steps wrote: `prepare/`, and `report.html` for an HTML artifact `report`."""
    for step in steps:
        if not step.folder or "/" in step.name:
            continue
        _point(folder / step.name, step.folder)
        for name in step.artifacts:
            if _is_page(step.folder / name):  # not a link: a browser would see the nameless file behind it as text
                shutil.copyfile(step.folder / name, folder / f"{name}.html")


def _is_page(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(15).lower() == b"<!doctype html>"
    return False


def _point(link: Path, target: Path) -> None:
    with suppress(OSError):  # a convenience; a file system without links is no reason to fail
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(target, link.parent), target_is_directory=target.is_dir())
