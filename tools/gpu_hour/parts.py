"""The parts of the GPU hour's slices, and the process that runs each of them.

A part appends rows to a file while it runs, so that a part that is stopped or crashes keeps those that it has measured.
"""

import importlib
import importlib.util
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

#: A named result: `row`, `verdict`, and `figures` or a `reason`.
Row: TypeAlias = dict[str, Any]
#: Packages that training needs, and those of predictions of tables, by the names of their imports.
TRAINING = ("numpy", "pydantic", "pyarrow", "safetensors", "google_crc32c", "tensorboard")
TABLES = (*TRAINING, "ibis", "duckdb", "rich", "jinja2", "scipy", "psutil")
PIP_NAMES = {"google_crc32c": "google-crc32c", "ibis": "ibis-framework"}
#: Seconds that a slice may take on a GPU.
SLICE_S = 480.0


@dataclass(frozen=True)
class Part:
    """One part of a slice."""

    name: str
    #: `module:function` in this package; the function takes a `Place`.
    target: str
    #: Seconds after which the part is stopped.
    budget_s: float
    packages: tuple[str, ...] = TRAINING
    #: GPUs that it needs.
    gpus: int = 1
    #: Why it is left out on a CPU; "" = it runs there, small.
    not_on_cpu: str = ""


SLICES: Mapping[int, tuple[str, tuple[Part, ...]]] = {
    1: ("correct", (
        Part("matrix", "correct:compare_matrix", 250),
        Part("resume", "correct:resume", 170),
        Part("memory", "correct:run_out_of_memory", 40, not_on_cpu="only a GPU's memory runs out without swapping"),
        Part("two GPUs", "correct:compare_two", 60, gpus=2),
    )),
    2: ("fast", (
        Part("language model, 124 M", "fast:measure_small_model", 110),
        Part("table", "fast:measure_table", 70),
        Part("images", "fast:measure_images", 80),
        Part("language model, large", "fast:measure_large_model", 220, not_on_cpu="it repeats the smaller model there"),
    )),
    3: ("saving", (Part("checkpoint", "saving:measure_saves", 470, (*TRAINING, "rich", "psutil")),)),
    4: ("serving", (
        Part("evaluate", "serving:measure_scoring", 120),
        Part("predict", "serving:measure_prediction", 180, TABLES),
        Part("serve", "serving:measure_requests", 180, (*TABLES, "starlette", "uvicorn")),
    )),
    5: ("facts", (
        Part("machine", "facts:describe_machine", 60, ()),
        Part("start", "facts:measure_start", 300),
    )),
}  # fmt: skip


@dataclass(frozen=True)
class Place:
    """The circumstances of a part: the folder that it works in, its size, and the name of its rows."""

    folder: Path
    #: The beginning of the names of its rows, such as `correct/matrix`.
    name: str
    on_cpu: bool
    gpus: int
    #: Memory of the smallest GPU, and the depth of the largest language model.
    total_bytes: int
    depth: int

    @property
    def rows(self) -> Path:
        """Returns the file of the rows, as JSON lines."""
        return self.folder / "rows"

    def record(self, name: str, holds: bool | None = None, **figures: Any) -> None:
        """Appends a row; `holds` = whether a bound was kept, None = a figure without a bound."""
        verdict = "measured" if holds is None else "holds" if holds else "fails"
        self._append({"row": f"{self.name}/{name}", "verdict": verdict, "figures": figures})

    def attempt(self, name: str, act: Callable[[], None]) -> None:
        """Runs `act`; records an exception as a row that fails. Its traceback goes to the log."""
        try:
            act()
        except Exception as error:
            traceback.print_exc()
            row = make_row("/".join(filter(None, (self.name, name))), "fails", f"{type(error).__name__}: {error}"[:500])
            self._append(row)

    def _append(self, row: Row) -> None:
        with self.rows.open("a") as lines:
            lines.write(json.dumps(row) + "\n")


def make_row(name: str, verdict: str, reason: str) -> Row:
    """Returns a row without figures."""
    return {"row": name, "verdict": verdict, "reason": reason}


def list_missing(part: Part) -> list[str]:
    """Returns the packages of a part that are not installed, as pip names them."""
    return [PIP_NAMES.get(name, name) for name in part.packages if importlib.util.find_spec(name) is None]


def explain_install(packages: list[str]) -> str:
    """Returns the commands that carry packages, with what they need, to a machine without a network."""
    version, names = f"{sys.version_info.major}.{sys.version_info.minor}", " ".join(packages)
    return (
        f"To add them without a network here, run this elsewhere:\n"
        f"  pip download --only-binary :all: --python-version {version} -d wheels {names}\n"
        f"and this here:\n  {sys.executable} -m pip install --no-index --find-links wheels {names}"
    )


def find_obstacle(part: Part, *, on_cpu: bool, gpus: int) -> str:
    """Returns why a part cannot run here; "" = it can."""
    if missing := list_missing(part):
        return f"missing packages: {', '.join(missing)}"
    if on_cpu:
        return part.not_on_cpu
    return f"it needs {part.gpus} GPUs" if gpus < part.gpus else ""


def run_part(part: Part, place: Place, budget_s: float, log: Path) -> list[Row]:
    """Runs a part in a process of its own, and ends it with its children after `budget_s` seconds; returns its rows."""
    place.folder.mkdir(parents=True)
    process = multiprocessing.get_context("fork").Process(target=_work, args=(part, place, log))
    process.start()
    try:
        process.join(budget_s)
    finally:  # also after Ctrl-C
        stopped = process.is_alive()
        if stopped and process.pid:
            with suppress(ProcessLookupError):  # it has not begun yet
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
        process.join()
    rows = [json.loads(line) for line in place.rows.read_text().splitlines()] if place.rows.exists() else []
    if stopped:
        rows.append(make_row(place.name, "skipped", f"stopped after {budget_s:.0f} s, its budget"))
    elif code := process.exitcode:
        rows.append(make_row(place.name, "fails", f"ended by signal {-code}" if code < 0 else f"exit code {code}"))
    return rows


def _work(part: Part, place: Place, log: Path) -> None:
    os.setsid()
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    began = time.monotonic()
    module, _, name = part.target.partition(":")
    place.attempt("", lambda: getattr(importlib.import_module(f"tools.gpu_hour.{module}"), name)(place))
    place.record("time", seconds=round(time.monotonic() - began, 1))
