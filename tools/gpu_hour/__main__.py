"""Measures what only a GPU can show, in five slices of at most eight minutes, and writes JSON.

    scripts/gpu_hour.sh                       # all slices
    scripts/gpu_hour.sh --slice 2             # one slice; repeat as you like
    scripts/gpu_hour.sh --on-cpu              # small, to try the program
    scripts/gpu_hour.sh --transcript docs/internals/gpu-hour.json

Needs PyTorch 2.11 or newer, and no network. Exit status: 0 = every bound holds, 1 = a row fails, 2 = the machine or the
request is wrong.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from tools.gpu_hour import machine, parts, transcript
from tools.gpu_hour.machine import DEPTHS, Gpu, Refused
from tools.gpu_hour.parts import SLICE_S, SLICES, Part, Place, Row

#: Variables that the launcher of a training sets before PyTorch is imported and CUDA starts.
AS_IN_TRAINING = {"OMP_WAIT_POLICY": "PASSIVE", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
#: How much longer parts may take on a CPU, which other programs may share.
ON_A_CPU = 4


def main(arguments: list[str] | None = None) -> int:
    given = _parse(arguments)
    try:
        if given.transcript:
            count = transcript.write_transcript(given.out, given.transcript)
            print(f"{count} rows: {given.transcript}")
            return 0
        numbers = given.slice or list(SLICES)
        machine.require_torch()
        gpus = [] if given.on_cpu else _require_machine(numbers, given.largest)
    except Refused as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if given.on_cpu:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    _announce_gaps(numbers, on_cpu=given.on_cpu, gpus=len(gpus))
    for name, value in AS_IN_TRAINING.items():
        os.environ.setdefault(name, value)
    import torch  # noqa: F401  # once, before the processes of the parts are forked; starts no CUDA

    return int(any([_run_slice(number, given, gpus) for number in numbers]))


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/gpu_hour.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slice", type=int, choices=list(SLICES), action="append", help="default: all; repeatable")
    parser.add_argument("--on-cpu", action="store_true", help="run every part small, without a GPU")
    parser.add_argument("--out", type=Path, default=Path("gpu-hour"), help="folder of the results; default gpu-hour")
    sizes = ", ".join(f"{depth} = {size}" for depth, size in DEPTHS.items())
    parser.add_argument("--largest", type=int, choices=sorted(DEPTHS), default=max(DEPTHS), metavar="DEPTH",
                        help=f"depth of the largest language model, by its parameters: {sizes}")  # fmt: skip
    parser.add_argument("--transcript", type=Path, metavar="FILE", help="only merge the results into FILE, redacted")
    return parser.parse_args(arguments)


def _require_machine(numbers: list[int], depth: int) -> list[Gpu]:
    """Returns the GPUs, read in a process of its own, so that CUDA does not start in this one."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        gpus, architectures = pool.apply(machine.read_gpus)
    machine.require_gpus(gpus, architectures)
    for number in numbers:
        machine.require_memory(number, depth, min(gpu.total_bytes for gpu in gpus))
    return gpus


def _announce_gaps(numbers: list[int], *, on_cpu: bool, gpus: int) -> None:
    """Prints which parts cannot run here, and why, before any work; and how to carry missing packages here."""
    missing: dict[str, None] = {}
    for number in numbers:
        for part in SLICES[number][1]:
            missing |= dict.fromkeys(parts.list_missing(part))
            if reason := parts.find_obstacle(part, on_cpu=on_cpu, gpus=gpus):
                print(f"slice {number} leaves out {part.name}: {reason}", file=sys.stderr)
    if missing:
        print(parts.explain_install(list(missing)), file=sys.stderr)


def _run_slice(number: int, given: argparse.Namespace, gpus: list[Gpu]) -> bool:
    """Runs a slice, prints its rows and writes them; returns whether one fails."""
    name, its_parts = SLICES[number]
    given.out.mkdir(parents=True, exist_ok=True)
    log, target = given.out / f"slice-{number}.log", given.out / f"slice-{number}.json"
    log.unlink(missing_ok=True)
    print(f"slice {number}, {name}:", flush=True)
    began, rows = time.monotonic(), list[Row]()
    for part in its_parts:
        patience = ON_A_CPU if given.on_cpu else 1
        left_s = patience * SLICE_S - (time.monotonic() - began)
        rows += (added := _run_part(part, name, given, gpus, min(patience * part.budget_s, left_s), log))
        for row in added:
            print(f"  {row['verdict']:<9} {row['row']}  {_format(row)}", flush=True)
    seconds, failed = round(time.monotonic() - began, 1), sum(row["verdict"] == "fails" for row in rows)
    document = {"format": 1, "slice": number, "name": name, "date": str(date.today()), "on_cpu": given.on_cpu,
                "seconds": seconds, "rows": rows}  # fmt: skip
    target.write_text(json.dumps(document, indent=1) + "\n")
    print(f"  {len(rows)} rows, {failed} fail, {seconds:.0f} s: {target}", flush=True)
    return failed > 0


def _run_part(
    part: Part, slice_name: str, given: argparse.Namespace, gpus: list[Gpu], budget_s: float, log: Path
) -> list[Row]:
    """Runs a part in a temporary folder, unless it cannot run here or its slice has no time left."""
    name = f"{slice_name}/{part.name}"
    reason = parts.find_obstacle(part, on_cpu=given.on_cpu, gpus=len(gpus))
    if reason or budget_s < 5:
        return [parts.make_row(name, "skipped", reason or f"the slice's {SLICE_S:.0f} s are over")]
    total_bytes = min((gpu.total_bytes for gpu in gpus), default=0)
    with tempfile.TemporaryDirectory(prefix="gpu-hour-", ignore_cleanup_errors=True) as scratch:
        place = Place(Path(scratch, "work"), name, given.on_cpu, len(gpus), total_bytes, given.largest)
        return parts.run_part(part, place, budget_s, log)


def _format(row: Row) -> str:
    figures = {name: f"{value:.4g}" if isinstance(value, float) else value
               for name, value in row.get("figures", {}).items()}  # fmt: skip
    return row.get("reason", "") or "  ".join(f"{name}={value}" for name, value in figures.items())[:150]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        print("interrupted; finished slices are kept", file=sys.stderr)
        raise SystemExit(130) from None
