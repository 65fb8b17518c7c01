"""Compares two engines, the BigQuery emulator `bqemulator` and DuckDB on this machine, on flights and on parcels, whose
features use expressions that engines may evaluate in different ways.

    python -m venv build/emulator
    build/emulator/bin/pip install 'bqemulator==1.4.*' duckdb==1.5.5 duckdb-extension-spatial==1.5.5 numpy
    python -m tools.drills.bigquery build/emulator --rows 20000

Rows, ids, splits, texts and labels must be equal; floats may differ by `FLOAT_BOUND`. The emulator shares no code with
vgp or with the loopback BigQuery of the suite. It needs its own environment, because it fails with DuckDB 2.0. Its
extension `spatial` is copied to the extension folder of its DuckDB.
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

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tests.helpers import warehouse
from training.tasks.flights import Flights
from vgp.base.storage.bigquery import client
from vgp.data.prepare import prepare
from vgp.data.tabular import TabularTask
from vgp.protocol import manifest

PROJECT, TABLE, PARCELS = "test-project", "test-project.drill.flights", "test-project.drill.parcels"
#: Relative bound: the last bits of float32, in which features are stored. Engines add whole numbers, and divide once.
FLOAT_BOUND = 1e-6


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.drills.bigquery", description=__doc__.splitlines()[0])
    parser.add_argument("environment", type=Path, help="where bqemulator is installed")
    parser.add_argument("--rows", type=int, default=20_000, help="flights of the year (default: 20,000)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drill-") as folder:
        server = start_emulator(given.environment)
        try:
            same = {**compare_parcels(Path(folder)), **compare_flights(Path(folder), given.rows)}
        finally:
            server.terminate()
            server.wait()
    for name, equal in same.items():
        print(f"{name}: {equal}")


def compare_flights(place: Path, count: int) -> dict[str, str]:
    load(flights(count), place, TABLE)
    first = prepare_rows("flights", str(place / "flights.csv"), place / "files")
    return {
        f"flights, {name}": compare(first, prepare_rows("flights", data, place / name, engine=engine))
        for name, data, engine in (
            ("bigquery, a table", f"bq://{TABLE}", ""),
            ("duckdb, a table", f"bq://{TABLE}", "duckdb"),
            ("bigquery, a query", str(query(place)), ""),
        )
    }


class EngineSpecific(TabularTask):
    """A task whose features have a different SQL text for each engine (`vgp.data.tables.engine_agreement`), over nulls,
    texts beyond ASCII, times before 1970 and equal keys of a window. Fractions of seconds are left out, because the
    emulator rounds them and Google does not."""

    schema, key, target = warehouse.Parcels.schema, warehouse.Parcels.key, warehouse.Parcels.target

    def features(self, rows: ir.Table) -> dict[str, ir.Value]:
        numbered = [rows.floor, rows.id, rows.code, rows.sent]
        orders = {"range": rows.floor, "falling": ibis.desc(rows.floor), "rows": numbered}
        windows = {
            f"{how}_{i}": ibis.window(group_by=rows.express, order_by=by, **{how.replace("falling", "range"): ends})
            for how, by in orders.items()
            for i, ends in enumerate(((-9, 4), (None, 4), (-9, None), (None, 0), (0, None), (None, None)))
        }
        last = ibis.window(order_by=[ibis.asc(rows.floor, nulls_first=True), ibis.desc(rows.weight), *numbered[1:]])
        early = rows.local - ibis.interval(days=30_000)
        return {
            **{name: rows.floor.sum().over(window) for name, window in windows.items()},
            "least": ibis.least(rows.weight, rows.floor, 7.5),
            "greatest": ibis.greatest(rows.weight, rows.floor),
            "one_of_two": ibis.least(rows.floor, rows.weight.nullif(rows.weight)),
            "seconds": rows.sent.epoch_seconds() % 86_400,
            "early": early.epoch_seconds() % 1_000,
            "letter": rows.city.re_extract(r"(?i)([a-zö])(?:[a-zö ]+)([a-z0-9]|\n)", 2),
            "all": rows.code.re_extract("[(O].*", 0),
            "previous": rows.floor.lag().over(last),
            "first": rows.floor.first().over(last),
            "rank": rows.floor.rank().over(ibis.window(order_by=ibis.desc(rows.weight))),
            "zero": (rows.weight * 0 * -1).max().over(group_by=rows.express),
            "whole": (rows.weight * 2).round(),
            "part": rows.floor // 7,
            "rest": rows.floor % 7,
            "place": rows.city.find("l"),
            "cut": rows.city.substr(1, 3),
        }


def compare_parcels(place: Path) -> dict[str, str]:
    rows = warehouse.parcels(900)
    load(rows, place, PARCELS)
    task = "tools.drills.bigquery:Worded"
    here = prepare_rows(task, str(warehouse.write(place, rows)), place / "parcels")
    there = prepare_rows(task, f"bq://{PARCELS}", place / "parcels there")
    return {"parcels, bigquery, a table": compare(here, there)}


def flights(count: int) -> pa.Table:
    """Returns `count` flights, evenly spread over a year."""
    archive = zipfile.ZipFile(Flights().default_data())
    types = {"time_hour": pa.timestamp("s", "UTC")}
    options = pyarrow.csv.ConvertOptions(column_types=types, null_values=["NA", ""])
    table = pyarrow.csv.read_csv(io.BytesIO(archive.read(archive.namelist()[0])), convert_options=options)
    return table.take(pa.array(range(0, table.num_rows, max(1, table.num_rows // count))))


def start_emulator(environment: Path) -> "subprocess.Popen[bytes]":
    """Starts the emulator on free ports, and connects Google's clients to it."""
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
    # In a query with time travel, the emulator assumes one dataset for all tables.
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


def load(rows: pa.Table, folder: Path, table: str) -> None:
    """Writes the rows to a file and to a table of BigQuery."""
    from google.cloud import bigquery

    pyarrow.csv.write_csv(rows, folder / f"{table.rpartition('.')[2]}.csv")
    asked = client.client(PROJECT)
    asked.create_dataset(f"{PROJECT}.drill", exists_ok=True)
    kinds = {pa.int64(): "INTEGER", pa.float64(): "FLOAT", pa.string(): "STRING", pa.bool_(): "BOOL",
             pa.date32(): "DATE", pa.timestamp("us"): "DATETIME"}  # fmt: skip
    fields = [bigquery.SchemaField(field.name, kinds.get(field.type, "TIMESTAMP")) for field in rows.schema]
    asked.create_table(bigquery.Table(f"{table}_loaded", fields))
    data, stamp = io.BytesIO(), pa.timestamp("us", "UTC")
    pq.write_table(rows.cast(pa.schema([(f.name, stamp if f.type == pa.timestamp("s", "UTC") else f.type)
                                        for f in rows.schema])), data)  # fmt: skip
    data.seek(0)
    config = bigquery.LoadJobConfig(source_format="PARQUET")
    asked.load_table_from_file(data, f"{table}_loaded", job_config=config).result()
    # The emulator has a history only of tables that a statement made; a change of the description counts as a change.
    asked.query(f"CREATE TABLE `{table}` AS SELECT * FROM `{table}_loaded`").result()
    made = asked.get_table(table)
    made.description = "for a drill"
    asked.update_table(made, ["description"])


def query(folder: Path) -> Path:
    path = folder / "flights.sql"
    path.write_text(f"-- all of them\nWITH f AS (SELECT * FROM `{TABLE}`)\nSELECT * FROM f WHERE year = 2013;\n")
    return path


def prepare_rows(task: str, data: str, folder: Path, **options: str) -> dict[str, pa.Table]:
    """Returns the prepared rows of each split, with categories as texts."""
    started_s = time.monotonic()
    made = prepare(task, data, folder, options=options)
    print(f"{data}: {made.rows_read:,} rows read in {time.monotonic() - started_s:.1f} s", flush=True)
    texts = {column.name: np.array(column.values) for column in made.columns if column.kind == "category"}
    splits = {}
    for split, files in manifest.load(folder).splits.items():
        table = pa.concat_tables([pq.read_table(folder / file.path) for file in files])
        columns = {name: texts[name][table[name]] if name in texts else table[name] for name in table.column_names}
        splits[split] = pa.table(columns)
    return splits


def compare(first: dict[str, pa.Table], second: dict[str, pa.Table]) -> str:
    """Returns a summary of two equal datasets. Exits if they differ."""
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
