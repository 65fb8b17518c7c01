"""How much CPU time does preparing a table of numbers without a key take, against Polars?

    python -m benchmarks.numeric_table --rows 300000 --columns 60

Each contender is a process of its own that reads the CSV file, splits its rows by a hash of their features, computes
mean and deviation of every column of the training rows, and writes each split as shuffled Parquet in float32. Polars
has its own hash. Only ours checks each value, looks for leaks, gives each row the id that BigQuery would compute, and
writes checksums.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.preparation import OURS, Run, measure

DECLARATION = 'target = "y"\nkind = "classes"\nclasses = ["0", "1"]\n[columns]\n{columns}\ny = "category"\n'


def write_table(path: Path, rows: int, columns: int) -> None:
    """Writes normal numbers of six decimals, and a class `y` that depends on the first of them and on noise."""
    import pyarrow as pa
    import pyarrow.csv

    draw = np.random.default_rng(0)
    numbers = draw.standard_normal((columns, rows)).round(6)
    table = pa.table({f"x{number}": values for number, values in enumerate(numbers)})
    classes = (numbers[0] + draw.standard_normal(rows) > 0).astype(np.int64)
    pyarrow.csv.write_csv(table.append_column("y", pa.array(classes)), path)


def prepare_ours(source: Path, destination: Path, columns: int) -> dict[str, float]:
    from vgp.data.prepare import prepare

    names = "\n".join(f'x{number} = "float"' for number in range(columns))
    made = prepare("table", str(source), destination, options={"declaration": DECLARATION.format(columns=names)})
    return {"rows": float(made.rows_read)}


def prepare_polars(source: Path, destination: Path, columns: int) -> dict[str, float]:
    import polars as pl

    names = [f"x{number}" for number in range(columns)]
    table = pl.read_csv(source, schema_overrides={**dict.fromkeys(names, pl.Float64), "y": pl.Int64})
    table = table.with_columns(_split=table.select(names).hash_rows(seed=0) % 100)
    table = table.with_columns(pl.col(names).cast(pl.Float32))
    splits = {
        "test": pl.col("_split") < 20,
        "validation": pl.col("_split").is_between(20, 24),
        "train": pl.col("_split") > 24,
    }
    for name, condition in splits.items():
        rows = table.filter(condition).drop("_split").sample(fraction=1.0, shuffle=True, seed=0)
        if name == "train":
            rows.select(pl.col(names).mean().name.suffix("_mean"), pl.col(names).std().name.suffix("_std"))
        rows.write_parquet(destination / f"{name}.parquet", compression="uncompressed")
    return {"rows": float(len(table))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--columns", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3, help="of each, in turn; the least CPU time counts")
    given = parser.parse_args()
    runs: dict[str, list[Run]] = {OURS: [], "polars": []}
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "numbers.csv")
        write_table(source, given.rows, given.columns)
        for number in range(given.runs):
            for contender, figures in runs.items():
                destination = Path(scratch, f"{contender}-{number}")
                destination.mkdir()
                words = [sys.executable, "-m", "benchmarks.numeric_table", contender, str(source), str(destination)]
                figures.append(measure([*words, str(given.columns)])[0])
    ours = min(run.cpu_s for run in runs[OURS])
    table = Table("rows", "columns", "by", "CPU s", "CPU / ours", "s", "peak GB", title=machine.describe())
    for contender, figures in runs.items():
        least = min(run.cpu_s for run in figures)
        cells = (f"{given.rows:,}", f"{given.columns}", contender, f"{least:.1f}", f"{least / ours:.2f}")
        table.add_row(*cells, f"{min(figures).seconds:.1f}", f"{max(run.peak_gb for run in figures):.2f}")
    Console().print(table)


if __name__ == "__main__":
    if sys.argv[1:2] in ([OURS], ["polars"]):
        prepare = prepare_ours if sys.argv[1] == OURS else prepare_polars
        print(json.dumps(prepare(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))))
    else:
        main()
