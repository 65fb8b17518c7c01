"""Two engines compared on flights: BigQuery, played by the emulator `bqemulator`, and DuckDB on this machine.

    python -m venv build/emulator
    build/emulator/bin/pip install 'bqemulator==1.4.*' duckdb==1.5.5 duckdb-extension-spatial==1.5.5 numpy
    python -m tests.bigquery_drill build/emulator --rows 20000

Rows, ids, splits, texts and labels must be equal; floats may differ by `FLOAT_BOUND`. The emulator shares no code with
ours, nor with the loopback BigQuery of the suite; it needs an environment of its own, since it fails with DuckDB 2.0.
Its extension `spatial` is copied to where its DuckDB looks for extensions.
"""

import argparse
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from training.data import manifest
from training.data.prepare import prepare
from training.storage.bigquery import client
from training.tasks.flights import Flights

PROJECT, TABLE = "test-project", "test-project.drill.flights"
#: Relative: a few last bits of float32, in which features are stored. Engines add whole numbers, and divide once.
FLOAT_BOUND = 1e-6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bigquery_drill", description=__doc__.splitlines()[0])
    parser.add_argument("environment", type=Path, help="where bqemulator is installed")
    parser.add_argument("--rows", type=int, default=20_000, help="flights of the year (default: 20,000)")
    given = parser.parse_args()
    rows = flights(given.rows)
    with tempfile.TemporaryDirectory(prefix="drill-") as folder:
        place = Path(folder)
        server = started(given.environment)
        try:
            load(rows, place)
            runs = {
                "duckdb, a file": prepared(str(place / "flights.csv"), place / "files"),
                "bigquery, a table": prepared(f"bq://{TABLE}", place / "table"),
                "duckdb, a table": prepared(f"bq://{TABLE}", place / "streamed", engine="duckdb"),
                "bigquery, a query": prepared(str(query(place)), place / "query"),
            }
        finally:
            server.terminate()
            server.wait()
    first, *others = runs.values()
    for name, other in zip(list(runs)[1:], others, strict=True):
        print(f"{name}: {compared(first, other)}")


def flights(count: int) -> pa.Table:
    """Flights of the whole year, evenly taken."""
    archive = zipfile.ZipFile(Flights().default_data())
    types = {"time_hour": pa.timestamp("s", "UTC")}
    options = pyarrow.csv.ConvertOptions(column_types=types, null_values=["NA", ""])
    table = pyarrow.csv.read_csv(io.BytesIO(archive.read(archive.namelist()[0])), convert_options=options)
    return table.take(pa.array(range(0, table.num_rows, max(1, table.num_rows // count))))


def started(environment: Path) -> "subprocess.Popen[bytes]":
    """The emulator, on ports of its own; Google's clients find it."""
    python = environment / "bin" / "python"
    ask = (
        "import duckdb, duckdb_extension_spatial as spatial; print(spatial.__path__[0]); "
        "print(duckdb.sql('pragma platform').fetchone()[0])"
    )
    packages, platform = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.split()
    extension = next(Path(packages).rglob("spatial.duckdb_extension"))
    target = Path.home() / ".duckdb" / "extensions" / extension.parent.name / platform
    target.mkdir(parents=True, exist_ok=True)
    shutil.copy(extension, target)
    rest, grpc = free_port(), free_port()
    command = [environment / "bin" / "bqemulator", "start", "--rest-port", str(rest), "--grpc-port", str(grpc)]
    server = subprocess.Popen([*command, "--project", PROJECT, "--log-level", "error"], stdout=subprocess.DEVNULL)
    os.environ["BIGQUERY_EMULATOR_HOST"] = f"http://127.0.0.1:{rest}"
    os.environ["BIGQUERY_STORAGE_EMULATOR_HOST"] = f"127.0.0.1:{grpc}"
    os.environ["GOOGLE_CLOUD_PROJECT"] = PROJECT
    # In a query that looks back, the emulator takes all tables for those of one dataset.
    os.environ["PREPARE_ENGINES"] = json.dumps({"bigquery": {"dataset": "drill"}})
    for port in (rest, grpc):
        wait_for(port, server)
    return server


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, server: "subprocess.Popen[bytes]", seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    sys.exit("bqemulator did not start")


def load(rows: pa.Table, folder: Path) -> None:
    """The flights as a file, and as a table of BigQuery."""
    from google.cloud import bigquery

    pyarrow.csv.write_csv(rows, folder / "flights.csv")
    asked = client.client(PROJECT)
    asked.create_dataset(f"{PROJECT}.drill")
    kinds = {pa.int64(): "INTEGER", pa.float64(): "FLOAT", pa.string(): "STRING"}
    fields = [bigquery.SchemaField(field.name, kinds.get(field.type, "TIMESTAMP")) for field in rows.schema]
    asked.create_table(bigquery.Table(f"{PROJECT}.drill.loaded", fields))
    data = io.BytesIO()
    stamps = rows["time_hour"].cast(pa.timestamp("us", "UTC"))
    pq.write_table(rows.set_column(rows.column_names.index("time_hour"), "time_hour", stamps), data)
    data.seek(0)
    config = bigquery.LoadJobConfig(source_format="PARQUET")
    asked.load_table_from_file(data, f"{PROJECT}.drill.loaded", job_config=config).result()
    # The emulator knows the past of what a statement made; and says that it was changed when its description was.
    asked.query(f"CREATE TABLE `{TABLE}` AS SELECT * FROM `{PROJECT}.drill.loaded`").result()
    table = asked.get_table(TABLE)
    table.description = "flights of 2013"
    asked.update_table(table, ["description"])


def query(folder: Path) -> Path:
    path = folder / "flights.sql"
    path.write_text(f"-- all of them\nWITH f AS (SELECT * FROM `{TABLE}`)\nSELECT * FROM f WHERE year = 2013;\n")
    return path


def prepared(data: str, folder: Path, **options: str) -> dict[str, pa.Table]:
    """The prepared rows of each split, categories as texts."""
    started_s = time.monotonic()
    made = prepare("flights", data, folder, options=options)
    print(f"{data}: {made.rows_read:,} rows read in {time.monotonic() - started_s:.1f} s", flush=True)
    texts = {column.name: np.array(column.values) for column in made.columns if column.kind == "category"}
    splits = {}
    for split, files in manifest.load(folder).splits.items():
        table = pa.concat_tables([pq.read_table(folder / file.path) for file in files])
        columns = {name: texts[name][table[name]] if name in texts else table[name] for name in table.column_names}
        splits[split] = pa.table(columns)
    return splits


def compared(first: dict[str, pa.Table], second: dict[str, pa.Table]) -> str:
    """What is to be said of two datasets. Exits if they differ."""
    if {s: t.num_rows for s, t in first.items()} != {s: t.num_rows for s, t in second.items()}:
        sys.exit("the splits have other numbers of rows")
    worst = 0.0
    for split, table in first.items():
        for name in table.column_names:
            here, there = table[name].to_numpy(), second[split][name].to_numpy()
            if here.dtype.kind != "f":
                if not (here == there).all():
                    sys.exit(f"{split}, {name}: {(here != there).sum():,} rows differ")
            elif (np.isnan(here) != np.isnan(there)).any():
                sys.exit(f"{split}, {name}: other values are missing")
            elif len(here):
                apart = np.nanmax(np.abs(here - there) / np.maximum(np.abs(here), 1e-3), initial=0)
                worst = max(worst, float(apart))
                if apart > FLOAT_BOUND:
                    sys.exit(f"{split}, {name}: {apart:.1e} apart")
    rows = sum(table.num_rows for table in first.values())
    return f"{rows:,} rows are equal, floats to {worst:.1e}"


if __name__ == "__main__":
    main()
