"""Slice 1: whether training on a GPU computes what a plain loop computes, repeats bits, and explains a lack of memory.

Every run of the matrix starts from the same weights, and each step has all rows, so the order of samples cannot matter.
The error of a run is the distance of its weights from those of a plain loop in float32, over the distance that this
loop went. It may be twice that of a plain loop in the same precision, plus `FLOOR`.
"""

import hashlib
import itertools
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from torch import Tensor

from tools.gpu_hour import training_process
from tools.gpu_hour.loops import Trained, save_weights, train_ours, train_plain
from tools.gpu_hour.parts import Place
from tools.gpu_hour.tasks import write
from vgp.base.exits import UserError
from vgp.train import fit
from vgp.train.train_config import TrainConfig

MIXED = "tools.gpu_hour.models:Mixed"
#: The error that an order of additions causes in float32, with room.
FLOOR = 1e-3
ROWS, STEPS, RATE = 512, 8, 0.05
#: The settings of both loops: a constant learning rate.
PLAN = {"schedule": "constant", "warmup_fraction": 0.0, "learning_rate": RATE, "weight_decay": 0.01}


def compare_matrix(place: Place) -> None:
    """Trains with every strategy, precision, compiled or not, recomputed or not; records the error of each."""
    runs = [(strategy, precision, compiled, recomputed)
            for compiled, strategy, precision, recomputed in itertools.product(
                (False, True), ("ddp", "fsdp"), ("fp32", "tf32", "bf16", "fp16"), (False, True))]  # fmt: skip
    if place.on_cpu:  # compiling for a CPU takes half a minute
        runs = [("ddp", "fp32", False, False), ("ddp", "bf16", False, True), ("fsdp", "fp16", False, True)]
    comparison = Comparison(place.folder)
    for strategy, precision, compiled, recomputed in runs:
        words = [strategy, precision, *["compiled"] * compiled, *["recomputed"] * recomputed]
        settings = {"strategy": strategy, "compile": compiled, "activation_checkpointing": recomputed}
        name = " ".join(words)
        place.attempt(name, partial(comparison.record, place, name, precision, settings))
    place.attempt("GradScaler", partial(comparison.record, place, "GradScaler", "fp16", {}, gain=16.0))
    place.attempt("raw tf32", partial(_expect_refusal, place, comparison))


def compare_two(place: Place) -> None:
    """Trains on two processes, one per GPU, against the plain loop on one."""
    comparison = Comparison(place.folder)
    for strategy, precision in itertools.product(
        *[("ddp",), ("fp32",)] if place.on_cpu else (("ddp", "fsdp"), ("fp32", "bf16"))
    ):
        name, settings = f"{strategy} {precision}", {"strategy": strategy, "nproc": 2}
        place.attempt(name, partial(comparison.record, place, name, precision, settings, norm=False, raw=False))


class Comparison:
    """The datasets and plain runs that trainings are compared with."""

    def __init__(self, folder: Path):
        self.folder, self.count = folder, itertools.count()
        self.prepare, self.plain = cache(self._prepare), cache(self._plain)

    def record(
        self, place: Place, name: str, precision: str, settings: Mapping[str, Any], gain: float = 1.0,
        norm: bool = True, raw: bool = True,
    ) -> None:  # fmt: skip
        """Trains with these settings and records the error, its bound, and the losses' difference."""
        variant = (gain, norm, raw and precision != "tf32")
        data, weights, start = self.prepare(*variant)
        ours = train_ours(
            data, self.folder / f"run-{next(self.count)}", epochs=STEPS, global_batch_size=ROWS, warm_start=weights,
            precision="fp32" if precision == "tf32" else precision, tf32=precision == "tf32", deterministic=True,
            **PLAN, **settings,
        )  # fmt: skip
        plain = self.plain(precision, *variant)
        exact = self.plain("fp32", *variant) if gain == 1 else plain  # which skips no step
        error, allowed = find_error(ours, exact, start), 2 * find_error(plain, exact, start) + FLOOR
        skipped = {kind: run.figures.get("skipped_steps", 0) for kind, run in (("ours", ours), ("plain", plain))}
        losses = max(abs(a - b) / abs(b) for a, b in zip(ours.losses, plain.losses, strict=True))
        place.record(
            name, error <= allowed and skipped["ours"] == skipped["plain"] and (gain == 1 or skipped["ours"] > 0),
            error=error, allowed=allowed, largest_difference_of_losses=losses, skipped_steps=skipped["ours"],
            skipped_steps_plain=skipped["plain"],
        )  # fmt: skip

    def _prepare(self, gain: float, norm: bool, raw: bool) -> tuple[Path, str, dict[str, Tensor]]:
        data = self.folder / f"data-{gain:g}-{norm}-{raw}"
        options = {"gain": gain, "norm": norm, "raw": raw, "kept": 0.7 if gain == 1 else 1}
        write(MIXED, options, ROWS, data)
        start = train_plain(data, steps=0, rows=ROWS).state
        return data, save_weights(start, self.folder / f"{data.name}.safetensors"), start

    def _plain(self, precision: str, gain: float, norm: bool, raw: bool) -> Trained:
        data, _, start = self.prepare(gain, norm, raw)
        return train_plain(data, steps=STEPS, rows=ROWS, precision=precision, learning_rate=RATE, weights=start)


def find_error(run: Trained, exact: Trained, start: Mapping[str, Tensor]) -> float:
    """Returns the larger error of parameters and of moving buffers (see the module)."""

    def distance(first: Mapping[str, Tensor], second: Mapping[str, Tensor], buffers: bool) -> float:
        names = [name for name, value in start.items()
                 if value.is_floating_point() and ("running" in name) == buffers]  # fmt: skip
        return sum(float((first[name].double() - second[name].double()).square().sum()) for name in names) ** 0.5

    return max(
        distance(run.state, exact.state, buffers) / max(distance(exact.state, start, buffers), 1e-30)
        for buffers in (False, *[True] * any("running" in name for name in start))
    )


def _expect_refusal(place: Place, comparison: Comparison) -> None:
    """Records whether TF32 is refused for a model that multiplies a raw column."""
    data, weights, _ = comparison.prepare(1.0, True, True)
    try:
        train_ours(data, place.folder / "refused", epochs=1, global_batch_size=ROWS, precision="fp32", tf32=True)
    except UserError as error:
        return place.record("raw tf32", "tf32=true would round" in str(error), message=str(error))
    place.record("raw tf32", False, message="training accepted a raw column under tf32")


def run_out_of_memory(place: Place) -> None:
    """Asks for more memory than the GPU has; records the message, and whether the snapshot was written."""
    data = place.folder / "data"
    write(MIXED, {"fill": 1.5}, ROWS, data)
    kept = place.folder / "kept"
    try:
        fit.train(TrainConfig(task=MIXED, options={"fill": 1.5}, epochs=1), data=data, model=kept / "model",
                  checkpoints=kept / "runs", nproc=1)  # fmt: skip
    except UserError as error:
        written = [path.suffix for path in kept.rglob("*/memory/*")]
        holds = "ran out of memory" in str(error) and {".txt", ".pickle"} <= set(written)
        return place.record("message and snapshot", holds, message=str(error), snapshots=len(written))
    place.record("message and snapshot", False, message="training did not run out of memory")


def resume(place: Place) -> None:
    """Kills trainings with SIGKILL, resumes them, and records whether the weights have the same bits."""
    variants: list[dict[str, Any]] = [{"strategy": "ddp", "precision": "fp32" if place.on_cpu else "fp16"}]
    if not place.on_cpu:
        variants += [{"strategy": "fsdp", "precision": "bf16"},
                     {"strategy": "ddp", "precision": "bf16", "compile": True}]  # fmt: skip
    data = place.folder / "data"
    write(MIXED, {"dropout": 0.1}, ROWS, data)
    for number, settings in enumerate(variants):
        name = " ".join(str(value) if value is not True else "compiled" for value in settings.values())
        place.attempt(name, partial(_kill_and_resume, place, data, name, number, settings))


def _kill_and_resume(place: Place, data: Path, name: str, number: int, settings: Mapping[str, Any]) -> None:
    plain, killed = place.folder / f"undisturbed-{number}", place.folder / f"killed-{number}"
    settings = {"deterministic": True, "checkpoint_every_steps": 4, "epochs": 12, "global_batch_size": 128, **settings}
    training_process.train(training_process.make_command(data, plain, settings))
    kills = 1 if place.on_cpu or number else 2
    for _ in range(kills):
        training_process.train(
            training_process.make_command(data, killed, settings), kill=f"6:{killed / 'checkpoints'}"
        )
    figures = training_process.train(training_process.make_command(data, killed, settings))
    digests = [
        hashlib.sha256((run / "model" / "model.safetensors").read_bytes()).hexdigest() for run in (plain, killed)
    ]
    place.record(name, digests[0] == digests[1] and figures["resumed_from"] > 0, kills=kills,
                 resumed_from=figures["resumed_from"], steps=figures["steps"])  # fmt: skip
