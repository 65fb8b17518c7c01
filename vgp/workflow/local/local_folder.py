"""The folder of a run on this machine.

<out>/registry/                       the models of all runs in <out>: versions, champion, history
<out>/<workflow>-<date>-<time>/
    pipeline.json  request.json       what was run
    pins/                             what the step resolve pinned
    run.json                          how it ended: every step with state, seconds and outputs
    log.txt                           everything that the steps printed, as they printed it
    checkpoints/                      survive a second start
    prepare/ train/ ...               what each step wrote
    report.html                       the page to look at
"""

import json
import os
import shlex
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path

from vgp.base import whole_files
from vgp.base.documents.json_text import JsonView
from vgp.base.errors import RequestError
from vgp.check.spec.dag import table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.protocol import file_names
from vgp.settings import Repository
from vgp.workflow.local.proof import Step

#: The step that pins what moves, and the parameter of the pipeline by which it takes pins from before.
_RESOLVE, _PINS = "resolve", "pins"


@dataclass
class Run:
    """A run's folder and what is known of its steps."""

    folder: Path
    workflow: str
    arguments: JsonView
    repository: Repository
    #: Training processes of each node, and nodes of a command, where somebody said how many.
    nproc: int | None = None
    nodes: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    #: The step that failed, or "the run".
    failed: str = ""
    #: What the failed step printed last.
    last_lines: list[str] = field(default_factory=list)

    @cached_property
    def spec(self) -> PipelineSpec:
        return PipelineSpec.read(self.folder / file_names.PIPELINE)

    @property
    def registry(self) -> Path:
        """The registry of models that the runs beside this one share."""
        return self.folder.parent / "registry"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def starts(self) -> list[Path]:
        """What kfp.local wrote for each start of this run, newest first: its names carry the time."""
        return sorted((path for path in (self.folder / "steps").glob("*-*-*-*") if path.is_dir()), reverse=True)

    def pins(self) -> str:
        """URI of the pins that an earlier start of this run resolved; "" if none did."""
        for start in self.starts():
            with suppress(OSError, ValueError):
                written = json.loads((start / _RESOLVE / file_names.EXECUTOR_OUTPUT).read_text(encoding="utf-8"))
                uri = str(table(written, "parameterValues").get("uri") or "")
                moved = self.folder / "pins" / Path(uri).name  # with the run's folder
                return str(moved) if moved.is_file() else uri
        return ""

    def resume_command(self) -> str:
        words = ["vgp", "run", self.workflow]
        if not self.repository.is_nearest():
            words += ["--settings", os.path.relpath(self.repository.file)]
        return shlex.join([*words, "--resume", os.path.relpath(self.folder)])


def new(
    out: Path, workflow: str, spec: PipelineSpec, arguments: JsonView, repository: Repository,
    nproc: int | None = None, nodes: int | None = None,
) -> Run:  # fmt: skip
    """A run in an empty folder of its own under `out`.

    Raises:
        RequestError: `out` cannot be written.
    """
    run = Run(_new(out, workflow), workflow, arguments, repository, nproc, nodes)
    whole_files.write(run.folder / file_names.PIPELINE, spec.text)
    _write_request(run)
    return run


def _write_request(run: Run) -> None:
    processes = {"nproc": run.nproc, "nodes": run.nodes}
    request = {"workflow": run.workflow, "arguments": dict(run.arguments), **processes}
    whole_files.write(run.folder / file_names.REQUEST, json.dumps(request, indent=1, sort_keys=True) + "\n")


def _new(out: Path, workflow: str) -> Path:
    name = f"{workflow}-{datetime.now():%Y%m%d-%H%M%S}"
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


def existing(folder: Path, workflow: str, repository: Repository) -> Run:
    """The run of an earlier start.

    Raises:
        RequestError: the folder holds none, or one of another workflow.
    """
    try:
        request = json.loads((folder / file_names.REQUEST).read_text(encoding="utf-8"))
        processes = (request.get(name) for name in ("nproc", "nodes"))
        nproc, nodes = (None if number is None else int(number) for number in processes)
        run = Run(folder.resolve(), str(request["workflow"]), dict(request["arguments"]), repository, nproc, nodes)
        assert run.spec
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise RequestError(f"--resume {folder} is not the folder of a run.") from None
    if run.workflow != workflow:
        raise RequestError(f"--resume {folder} is a run of {run.workflow}, not of {workflow}.")
    return run


def go_on(run: Run) -> None:
    """From now on the run takes what its earlier start pinned, whatever moved meanwhile, and so many processes."""
    pins = run.pins() if _PINS in run.spec.parameters else ""
    if pins:
        run.arguments = {**run.arguments, _PINS: pins}
    _write_request(run)


def link(folder: Path, steps: Iterable[Step]) -> None:
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
