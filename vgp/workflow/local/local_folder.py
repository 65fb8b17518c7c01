"""Creates and opens the folder of a run on this machine.

<out>/registry/                       models of all runs in <out>: versions, champion, history
<out>/<workflow>-<date>-<time>/
    pipeline.json  request.json       the spec and the arguments of the run
    pins/                             data versions that the step `resolve` pinned
    run.json                          the result: every step with state, seconds and outputs
    log.txt                           the unchanged output of all steps
    checkpoints/                      checkpoints, from which a resumed run continues
    prepare/ train/ ...               outputs of each step
    report.html                       the report
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

#: The step that pins data versions, and the pipeline parameter with the pins of an earlier start.
_RESOLVE, _PINS = "resolve", "pins"


@dataclass
class Run:
    """A run's folder, request, and the progress of its steps."""

    folder: Path
    workflow: str
    arguments: JsonView
    repository: Repository
    #: Training processes of each node, and nodes of a command; None: the default.
    nproc: int | None = None
    nodes: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    #: The failed step, or "the run"; "" without a failure.
    failed: str = ""
    #: The last lines that the failed step printed.
    last_lines: list[str] = field(default_factory=list)

    @cached_property
    def spec(self) -> PipelineSpec:
        return PipelineSpec.read(self.folder / file_names.PIPELINE)

    @property
    def registry(self) -> Path:
        """Returns the folder of the model registry that all runs in the parent folder share."""
        return self.folder.parent / "registry"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def list_starts(self) -> list[Path]:
        """Returns kfp.local's folder of each start of this run, newest first, by the time in the names."""
        return sorted((path for path in (self.folder / "steps").glob("*-*-*-*") if path.is_dir()), reverse=True)

    def find_pins(self) -> str:
        """Returns the URI of the pins of an earlier start of this run; "" for none."""
        for start in self.list_starts():
            with suppress(OSError, ValueError):
                written = json.loads((start / _RESOLVE / file_names.EXECUTOR_OUTPUT).read_text(encoding="utf-8"))
                uri = str(table(written, "parameterValues").get("uri") or "")
                local = self.folder / "pins" / Path(uri).name  # the run's folder may have been moved
                return str(local) if local.is_file() else uri
        return ""

    def format_resume_command(self) -> str:
        words = ["vgp", "run", self.workflow]
        if not self.repository.is_nearest():
            words += ["--settings", os.path.relpath(self.repository.file)]
        return shlex.join([*words, "--resume", os.path.relpath(self.folder)])


def create(
    out: Path, workflow: str, spec: PipelineSpec, arguments: JsonView, repository: Repository,
    nproc: int | None = None, nodes: int | None = None,
) -> Run:  # fmt: skip
    """Creates a run in a new folder under `out`.

    Raises:
        RequestError: `out` cannot be written.
    """
    run = Run(_create_folder(out, workflow), workflow, arguments, repository, nproc, nodes)
    whole_files.write(run.folder / file_names.PIPELINE, spec.text)
    _write_request(run)
    return run


def _write_request(run: Run) -> None:
    processes = {"nproc": run.nproc, "nodes": run.nodes}
    request = {"workflow": run.workflow, "arguments": dict(run.arguments), **processes}
    whole_files.write(run.folder / file_names.REQUEST, json.dumps(request, indent=1, sort_keys=True) + "\n")


def _create_folder(out: Path, workflow: str) -> Path:
    name = f"{workflow}-{datetime.now():%Y%m%d-%H%M%S}"
    for number in range(1000):
        folder = out / (name if not number else f"{name}-{number}")
        try:
            folder.mkdir(parents=True, exist_ok=False)
            return folder.resolve()
        except FileExistsError:
            if not out.is_dir():
                raise RequestError(f"--out {out} is a file. Name a folder.") from None
        except OSError as error:
            raise RequestError(f"--out {out} cannot be written: {error.strerror}.") from None
    raise RequestError(f"--out {out} already holds 1,000 runs of this second. Try again.")


def open_run(folder: Path, workflow: str, repository: Repository) -> Run:
    """Returns the run in a folder.

    Raises:
        RequestError: the folder holds no run, or a run of another workflow.
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


def keep_pins(run: Run) -> None:
    """Writes the pins of the run's earlier start, and its number of processes, into its request."""
    pins = run.find_pins() if _PINS in run.spec.parameters else ""
    if pins:
        run.arguments = {**run.arguments, _PINS: pins}
    _write_request(run)


def link_outputs(folder: Path, steps: Iterable[Step]) -> None:
    """Links the folder of each step as `<step>/`, and copies an HTML artifact `report` to `report.html`."""
    for step in steps:
        if not step.folder or "/" in step.name:
            continue
        _replace_link(folder / step.name, step.folder)
        for name in step.artifacts:
            if _is_page(step.folder / name):  # a copy, because a browser would show a linked file without .html as text
                shutil.copyfile(step.folder / name, folder / f"{name}.html")


def _is_page(path: Path) -> bool:
    with suppress(OSError), path.open("rb") as file:
        return file.read(15).lower() == b"<!doctype html>"
    return False


def _replace_link(link: Path, target: Path) -> None:
    with suppress(OSError):  # links are a convenience, which some file systems do not have
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(target, link.parent), target_is_directory=target.is_dir())
