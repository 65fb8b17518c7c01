"""The parts of the GPU hour's slices, and the process that runs each of them.

A part appends rows to a file while it runs, so that a part that is stopped or crashes keeps those that it has measured.
"""

import importlib
import importlib.util
import json
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Packages that training needs, by the names of their imports; the last part of a dotted name is optional in messages.
TRAINING = ("numpy", "pydantic", "pyarrow", "safetensors", "google_crc32c", "tensorboard")
TABLES = (*TRAINING, "ibis", "duckdb", "rich", "jinja2", "scipy", "psutil")
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
        Part("language model, 124 M", "fast:measure_small_model", 120),
        Part("table", "fast:measure_table", 45),
        Part("images", "fast:measure_images", 55),
        Part("language model, large", "fast:measure_large_model", 260, not_on_cpu="it repeats the smaller model there"),
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


@dataclass
class Place:
    """The circumstances of a part: where it works, how large, and where its rows go."""

    folder: Path
    rows: Path
    #: The beginning of the names of its rows, such as `correct/matrix`.
    name: str
    on_cpu: bool
    gpus: int
    #: Memory of the smallest GPU, and the depth of the largest language model.
    total_bytes: int
    depth: int
    names: list[str] = field(default_factory=list)

    def record(self, name: str, holds: bool | None = None, **figures: Any) -> None:
        """Appends a row; `holds` = whether a bound was kept, None = a figure without a bound."""
        verdict = "measured" if holds is None else "holds" if holds else "fails"
        append(self.rows, f"{self.name}/{name}", verdict, figures=figures)

    def attempt(self, name: str, act: Callable[[], None]) -> None:
        """Runs `act`; records an exception as a row that fails."""
        try:
            act()
        except Exception as error:
            traceback.print_exc()
            append(self.rows, f"{self.name}/{name}", "fails", reason=f"{type(error).__name__}: {error}"[:500])


def append(path: Path, name: str, verdict: str, *, figures: Mapping[str, Any] | None = None, reason: str = "") -> None:
    """Appends a row to a file of JSON lines."""
    row = {"row": name, "verdict": verdict, **({"figures": figures} if figures else {}),
           **({"reason": reason} if reason else {})}  # fmt: skip
    with path.open("a") as lines:
        lines.write(json.dumps(row) + "\n")


def missing_packages(part: Part) -> list[str]:
    return [name for name in part.packages if importlib.util.find_spec(name) is None]


def reason_to_skip(part: Part, *, on_cpu: bool, gpus: int) -> str:
    """Returns why a part cannot run here; "" = it can."""
    if missing := missing_packages(part):
        return f"missing packages: {', '.join(missing)}"
    if on_cpu:
        return part.not_on_cpu
    return f"it needs {part.gpus} GPUs" if gpus < part.gpus else ""


def run_part(part: Part, place: Place, budget_s: float, log: Path) -> None:
    """Runs a part in a process of its own, and stops the process and its children after `budget_s` seconds."""
    before = place.rows.read_text() if place.rows.exists() else ""
    process = multiprocessing.get_context("fork").Process(target=_work, args=(part, place, log))
    process.start()
    try:
        process.join(budget_s)
    finally:  # also after Ctrl-C
        stopped = process.is_alive()
        if process.pid and stopped:
            os.killpg(process.pid, signal.SIGKILL)
        process.join()
    if stopped:
        append(place.rows, place.name, "skipped", reason=f"stopped after {budget_s:.0f} s, its budget")
    elif process.exitcode:
        added = place.rows.read_text()[len(before) :] if place.rows.exists() else ""
        how = f"ended by signal {-process.exitcode}" if process.exitcode < 0 else f"exit code {process.exitcode}"
        if process.exitcode < 0 or '"fails"' not in added:
            append(place.rows, place.name, "fails", reason=f"{how}; see the log")


def _work(part: Part, place: Place, log: Path) -> None:
    os.setsid()
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(stream, 1)
    os.dup2(stream, 2)
    place.folder.mkdir(parents=True)
    began = time.monotonic()
    module, _, name = part.target.partition(":")
    try:
        getattr(importlib.import_module(f"tools.gpu_hour.{module}"), name)(place)
    except Exception as error:
        traceback.print_exc()
        append(place.rows, place.name, "fails", reason=f"{type(error).__name__}: {error}"[:500])
    append(place.rows, f"{place.name}/time", "measured", figures={"seconds": round(time.monotonic() - began, 1)})
