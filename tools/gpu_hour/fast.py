"""Slice 2: steps per second of this library and of a plain loop, on the same data, and where the difference goes.

The plain loop runs first, before training sets deterministic kernels for the process. Of a traced step, `busy_ms` is
kernels, `copy_ms` data and checkpoints, `wait_ms` the host waiting for the device, as in meetings of ranks, and
`idle_ms` everything in which the GPU rests.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tools.gpu_hour import machine
from tools.gpu_hour.loops import Trained, free_memory, train_ours, train_plain
from tools.gpu_hour.parts import Place
from tools.gpu_hour.tasks import GAP, TRACED, write
from vgp.base.gpu_peaks import peak_flops
from vgp.data import tasks
from vgp.protocol import manifest

SMALL_DEPTH = 12
#: The modes of the plain loop for small models.
MODES = ("eager", "compiled", "graphs")
MODELS = "tools.gpu_hour.models"


def measure_small_model(place: Place) -> None:
    """Measures a language model of 124 M parameters; on a CPU a tiny one."""
    _measure_language_model(place, min(SMALL_DEPTH, place.depth), (20, 100))


def measure_large_model(place: Place) -> None:
    """Measures the largest language model of the request, by default of 1 B parameters; on a CPU a tiny one."""
    _measure_language_model(place, place.depth, (5, 25))


def measure_table(place: Place) -> None:
    """Measures the library's network for tables against the plain loop, eager, compiled, and with CUDA graphs."""
    options = {"hidden": [8]} if place.on_cpu else {}
    _measure_small_steps(
        place, "Numbers", options, *((64, 4096, (2, 6)) if place.on_cpu else (1024, 1 << 20, (200, 1200)))
    )


def measure_images(place: Place) -> None:
    """Measures a small residual network against the plain loop, eager, compiled, and with CUDA graphs."""
    options = {"side": 8, "width": 4} if place.on_cpu else {}
    _measure_small_steps(place, "Images", options, *((8, 64, (2, 4)) if place.on_cpu else (256, 8192, (50, 250))))


def _measure_language_model(place: Place, depth: int, timed: tuple[int, int]) -> None:
    options: dict[str, Any] = {"depth": depth, "sequence_length": 1024}
    rows = machine.choose_rows(depth, place.total_bytes)
    if place.on_cpu:
        options, rows, timed = {"depth": 1, "sequence_length": 16, "tokens": 300}, 4, (1, 3)
    data = place.folder / "data"
    dataset = write(f"{MODELS}:Tokens", options, rows * 16, data)
    mode, precision = ("eager", "fp32") if place.on_cpu else ("compiled", "bf16")
    work = tasks.load(dataset.task, dataset.options).workload(dataset)
    rates = {}

    def measure(name: str, train: Callable[[], Trained]) -> None:
        figures = train().figures
        rates[name] = figures["steps_per_s"]
        rate = rates[name] * rows
        place.record(
            name,
            **_select_speed(figures),
            tokens_per_s=rate * work.units_per_row,
            **_compute_mfu(rate * work.flops_per_row),
        )
        if "chosen" in figures:
            place.record("size", rows=rows, tokens_of_a_row=work.units_per_row, parameters=figures["parameters"],
                         peak_memory_bytes=figures["peak_memory_bytes"], chosen=figures["chosen"])  # fmt: skip

    loops: dict[str, Callable[[], Trained]] = {
        f"plain {mode}": partial(train_plain, data, rows=rows, precision=precision, mode=mode, timed=timed),
        "ours": partial(_train, data, place.folder, rows, timed, precision=precision),
    }
    for name, train in loops.items():
        place.attempt(name, partial(measure, name, train))
        free_memory()
    if len(rates) == 2:
        place.record("ratio", ours_to_plain=rates["ours"] / rates[f"plain {mode}"])


def _measure_small_steps(
    place: Place, task: str, options: dict[str, Any], rows: int, samples: int, timed: tuple[int, int]
) -> None:
    data, modes = place.folder / "data", MODES[:1] if place.on_cpu else MODES
    write(f"{MODELS}:{task}", options, samples, data)
    precision = "fp32" if place.on_cpu else "bf16"
    rates = {}
    for mode in modes:

        def run(mode: str = mode) -> None:
            figures = train_plain(data, rows=rows, precision=precision, mode=mode, timed=timed).figures
            rates[mode] = figures["steps_per_s"]
            place.record(f"plain {mode}", **_select_speed(figures))

        place.attempt(f"plain {mode}", run)
        free_memory()
    ours = {"ours": {}} if place.on_cpu else {"ours": {}, "ours compiled": {"compile": True}}
    for name, settings in ours.items():

        def run_ours(name: str = name, settings: dict[str, Any] = settings) -> None:
            figures = _train(data, place.folder, rows, timed, **settings).figures
            place.record(name, **_select_speed(figures), chosen=figures["chosen"])
            rate, ratio = figures["steps_per_s"], name.replace("ours", "ratio")
            place.record(ratio, **{f"ours_to_plain_{mode}": rate / other for mode, other in rates.items()})

        place.attempt(name, run_ours)
        free_memory()


def _train(data: Path, folder: Path, rows: int, timed: tuple[int, int], **settings: Any) -> Trained:
    """Trains as a user would, with the defaults."""
    steps, samples = timed[1] + GAP + TRACED, manifest.load(data).rows("train")
    return train_ours(data, folder / "ours", timed=timed, epochs=steps * rows / samples, global_batch_size=rows,
                      checkpoint_every_s=3600, **settings)  # fmt: skip


def _select_speed(figures: Mapping[str, Any]) -> dict[str, float]:
    names = ("steps_per_s", "step_ms", "busy_ms", "copy_ms", "wait_ms", "idle_ms", "busy_share")
    return {name: figures[name] for name in names}


def _compute_mfu(flops_per_s: float) -> dict[str, float]:
    peak = peak_flops(torch.cuda.get_device_name()) if torch.cuda.is_available() else None
    return {"mfu": flops_per_s / peak} if peak else {}
