"""How much CPU time, wall time and memory does data preparation take, against Polars, DuckDB and pandas?

    python -m benchmarks.preparation --copies 1 20 60
    python -m benchmarks.preparation --copies 20 --files 1 100 1000 10000 --by ours polars duckdb
    python -m benchmarks.preparation --copies 20 --parquet
    python -m benchmarks.preparation --years 20

Each contender is a process of its own that reads equal files and writes the flights dataset as Parquet. The peak is the
resident memory of the process and its children, sampled every 20 ms. Copies of the data differ in their flight numbers
only, so hours have more flights; years follow each other, as a table grows. The benchmark fails if the results differ.
`benchmarks.flights_work` lists the additional work of ours.
"""

import argparse
import importlib.util
import json
import math
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.flights_work import Months

OURS = "ours"
CONTENDERS = (OURS, "polars", "polars-ordered", "duckdb", "duckdb-ordered", "pandas")
YEAR_COLUMN, FLIGHT_COLUMN, HOUR_COLUMN = 0, 10, 18
#: Flight numbers of the data have four digits.
FLIGHT_SHIFT = 10_000


def write_copies(folder: Path, copies: int, files: int, years: int = 1) -> int:
    """Writes the flights `copies` times for each of `years` years as CSV, in equally long files; returns the rows."""
    from training.tasks.flights import Flights

    with zipfile.ZipFile(Flights().default_data()) as archive:
        header, *lines = archive.read("flights.csv").decode().splitlines(keepends=True)
    rows, number = len(lines) * copies * years, 0
    for written, (year, copy, line) in enumerate(product(range(years), range(copies), lines)):
        if written == number * rows // files:
            file = open(folder / f"flights-{number:05}.csv", "w")  # noqa: SIM115
            file.write(header)
            number += 1
        cells = line.rstrip().split(",")
        cells[FLIGHT_COLUMN] = str(int(cells[FLIGHT_COLUMN]) + copy * FLIGHT_SHIFT)
        for column in (YEAR_COLUMN, HOUR_COLUMN):
            cells[column] = f"{int(cells[column][:4]) + year}{cells[column][4:]}"
        file.write(",".join(cells) + "\n")
        if written + 1 == number * rows // files:
            file.close()
    return rows


def convert_to_parquet(folder: Path) -> None:
    """Replaces each CSV file by a Parquet file in the declared types."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    from training.tasks.flights import Flights

    types = {field.name: field.type for field in Flights.schema}
    options = pyarrow.csv.ConvertOptions(column_types=types, null_values=["NA"], strings_can_be_null=False)
    for path in folder.glob("*.csv"):
        pa.parquet.write_table(pyarrow.csv.read_csv(path, convert_options=options), path.with_suffix(".parquet"))
        path.unlink()


def run_ours(source: str, destination: str, years: str) -> dict[str, float]:
    from vgp.data.prepare import prepare

    made = prepare("flights", source, destination, options=Months(int(years)).options())
    return {column.name: column.mean for column in made.columns if column.kind == "number"}


def command(contender: str, source: Path, destination: Path, years: int) -> list[str]:
    rival, _, ordered = contender.partition("-")
    program = ["benchmarks.preparation", OURS] if contender == OURS else [f"benchmarks.flights_{rival}"]
    return [sys.executable, "-m", *program, str(source), str(destination), str(years), *filter(None, [ordered])]


@dataclass(frozen=True, order=True)
class Run:
    """Wall and processor time and peak resident memory of a process with its children."""

    seconds: float
    cpu_s: float
    peak_gb: float


def measure(words: list[str]) -> tuple[Run, dict[str, float]]:
    """Runs a command and returns its cost and its output."""
    started, cpu_before, peak = time.perf_counter(), read_cpu_seconds(), 0
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.02)
        seconds = time.perf_counter() - started
        if process.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{process.stderr.read() if process.stderr else ''}")
        assert process.stdout
        return Run(seconds, read_cpu_seconds() - cpu_before, peak / 1e9), json.loads(process.stdout.read())


def read_cpu_seconds() -> float:
    """Returns the processor seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def resident(pid: int) -> int:
    total = 0
    try:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            total += process.memory_info().rss
    except psutil.NoSuchProcess:
        pass
    return total


def check_equal(found: dict[str, dict[str, float]]) -> None:
    """Raises an error unless all contenders computed equal features."""
    for contender, means in found.items():
        for name, mean in found[OURS].items():
            if not math.isclose(means[name], mean, rel_tol=1e-4):
                raise SystemExit(f"{contender} has another mean of {name}: {means[name]}, ours {mean}")


def compare(given: argparse.Namespace, copies: int, files: int, scratch: Path, table: Table) -> None:
    source = scratch / "flights"
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir()
    rows = write_copies(source, copies, files, given.years)
    if given.parquet:
        convert_to_parquet(source)
    results: dict[str, list[Run]] = {name: [] for name in given.by}
    means: dict[str, dict[str, float]] = {}
    for _ in range(given.runs):  # in turn, so that a drift of the machine affects all
        for contender in given.by:
            destination = scratch / contender
            shutil.rmtree(destination, ignore_errors=True)
            destination.mkdir()
            run, means[contender] = measure(command(contender, source, destination, given.years))
            results[contender].append(run)
    check_equal(means)
    ours = min(run.cpu_s for run in results[OURS])
    size = sum(path.stat().st_size for path in source.iterdir()) / 1e6
    for contender, figures in results.items():
        seconds, peak_gb = min(figures).seconds, max(run.peak_gb for run in figures)
        used = min(run.cpu_s for run in figures)
        cells = (f"{rows:,}", f"{size:.0f} MB", f"{files:,}", contender, f"{used:.1f}", f"{used / ours:.2f}")
        table.add_row(*cells, f"{seconds:.1f}", f"{peak_gb:.2f}")


def require(contenders: list[str], parser: argparse.ArgumentParser) -> None:
    """Exits with code 2 if ours is not among the contenders, or one of them is not installed."""
    if OURS not in contenders:
        parser.error(f"--by {' '.join(contenders)} has nothing to compare with: name {OURS} as well.")
    for contender in contenders:
        rival = contender.partition("-")[0]
        if rival != OURS and importlib.util.find_spec(rival) is None:
            parser.error(
                f"--by {contender} needs the package {rival}, which is not installed: "
                "./scripts/setup.sh training benchmarks, or leave it out of --by."
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 20], help="of each year")
    parser.add_argument("--years", type=int, default=1, help="how many years of flights, one after the other")
    parser.add_argument("--files", type=int, nargs="+", default=[1], help="of the same bytes all together")
    parser.add_argument("--parquet", action="store_true", help="Parquet files instead of CSV files")
    parser.add_argument("--by", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    parser.add_argument("--runs", type=int, default=3, help="of each; the least counts, and the largest peak")
    given = parser.parse_args()
    require(given.by, parser)
    table = Table("rows", "input", "files", "by", "CPU s", "CPU / ours", "s", "peak GB", title=machine.describe())
    with tempfile.TemporaryDirectory() as scratch:
        for copies in given.copies:
            for files in given.files:
                compare(given, copies, files, Path(scratch), table)
    Console().print(table)


if __name__ == "__main__":
    if sys.argv[1:2] == [OURS]:
        print(json.dumps(run_ours(*sys.argv[2:])))
    else:
        main()
