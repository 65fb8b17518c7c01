"""Prepares the flights dataset in DuckDB: sums by hour, windows over them, and one joining pass for each split.

python -m benchmarks.flights_duckdb FOLDER DESTINATION YEARS [ordered]
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import flights_work
from benchmarks.flights_work import BANDS, CATEGORIES, INTEGERS, MONTH, STRINGS, WEEKDAYS, Months
from training.tasks.flights import LATE_MIN, MAX_DELAY_MIN, MAX_WAIT_HOURS, RECENT_HOURS

#: Reads the means of a split's numbers from its files, because each split is written by one streaming query.
SPLITS = {
    "validation": "{month} <= {train} AND make_date(year, month, day) IN ({days})",
    "train": "{month} <= {train} AND make_date(year, month, day) NOT IN ({days})",
    "test": "{month} > {train} AND {month} <= {test}",
}


def prepare(source: str, destination: Path, months: Months, ordered: bool = False) -> dict[str, float]:
    import duckdb

    # Tables in memory are not compressed, which takes as long as reading the file.
    db = duckdb.connect(config={"preserve_insertion_order": False, "temp_directory": str(destination / "spill")})
    _read(db, source, ordered)
    if db.execute("SELECT 1 FROM flights GROUP BY hour, carrier, flight HAVING count(*) > 1 LIMIT 1").fetchall():
        raise ValueError("duplicate keys")
    _create_counts(db, months)
    recent = {name: _create_recent(db, name, ", ".join(by), windows) for name, (by, windows) in RECENT_HOURS.items()}
    _create_waiting(db)
    _create_categories(db)
    days = ", ".join(f"DATE '{day}'" for day in months.validation())
    shown = {"month": MONTH, "train": months.train, "test": months.test, "days": days}
    for split, rows in SPLITS.items():
        columns = [column for columns in recent.values() for column in columns]
        _write(db, f"{destination}/{split}.parquet", columns, rows.format(**shown), ordered)
    train = f"read_parquet('{destination}/train.parquet')"
    columns = db.execute(f"DESCRIBE SELECT * FROM {train}").fetchall()
    numbers = [name for name, kind, *_ in columns if kind == "FLOAT"]
    means = db.execute(f"SELECT {', '.join(f'avg({name}::DOUBLE)' for name in numbers)} FROM {train}").fetchone()
    return dict(zip(numbers, means, strict=True))


def _read(db: Any, source: str, ordered: bool) -> None:
    """Creates the table of the needed columns, typed; `left_at` is the hour in which a flight left."""
    files, parquet = flights_work.find_files(source)
    types = {**dict.fromkeys(INTEGERS, "SMALLINT"), "flight": "INTEGER", **dict.fromkeys(STRINGS, "VARCHAR")}
    types["time_hour"] = "TIMESTAMP"
    read = f"read_csv('{files}', header = true, nullstr = 'NA', types = {types})"
    casts = ", ".join(f"{name}::{kind} AS {name}" for name, kind in types.items())
    db.execute(f"""
        CREATE TEMP TABLE flights AS
        SELECT * EXCLUDE (time_hour), hour + floor((minute + dep_delay) / 60)::INTEGER AS left_at
          {f", {flights_work.compute_md5_number('hour')} AS id" if ordered else ""}
        FROM (SELECT {casts}, (epoch(time_hour)::BIGINT // 3600)::INTEGER AS hour
              FROM {f"read_parquet('{files}')" if parquet else read})""")


def _create_counts(db: Any, months: Months) -> None:
    """Creates the table of departures and of the sum of their delays, at the finest grain that the windows need.

    Copies of one year share that grain; in consecutive years nearly every flight has its own.
    """
    grain, delay = "origin, carrier, dest, hour, left_at", f"greatest(least(dep_delay, {MAX_DELAY_MIN}), 0)::INTEGER"
    if months.years > 1:
        db.execute(f"CREATE TEMP VIEW counted AS SELECT {grain}, 1 AS n, {delay} AS total FROM flights")
    else:
        db.execute(f"""
            CREATE TEMP TABLE counted AS SELECT {grain}, count(*) AS n, sum({delay})::INTEGER AS total
            FROM flights GROUP BY ALL""")


def _create_recent(db: Any, name: str, keys: str, windows: Any) -> list[str]:
    """Creates the table NAME_lately of (keys, hour) and returns its columns.

    The hours to look up are added to the sums as empty rows, so that one window function serves both.
    """
    sums = ", ".join(
        f"sum({value}) OVER (PARTITION BY {keys} ORDER BY hour RANGE BETWEEN {first} PRECEDING AND {last} PRECEDING) "
        f"AS {value}_{first}_{last}"
        for first, last in windows
        for value in ("n", "total")
    )
    columns = dict(_list_recent_columns(name, windows))
    db.execute(f"""
        CREATE TEMP TABLE {name}_lately AS
        WITH sums AS (
          SELECT {keys}, hour, sum(n) AS n, sum(total) AS total FROM (
            SELECT {keys}, left_at AS hour, n, total FROM counted WHERE left_at IS NOT NULL
            UNION ALL SELECT DISTINCT {keys}, hour, 0, 0 FROM counted) GROUP BY ALL)
        SELECT {keys}, hour, {", ".join(f"{value}::FLOAT AS {column}" for column, value in columns.items())}
        FROM (SELECT {keys}, hour, {sums} FROM sums)""")
    return list(columns)


def _list_recent_columns(name: str, windows: Any) -> Iterator[tuple[str, str]]:
    for first, last in windows:
        n = f"coalesce(n_{first}_{last}, 0)"
        yield f"{name}_delay_{first}_to_{last}_h_ago", f"(total_{first}_{last} / nullif({n}, 0))"
        yield f"{name}_departures_{first}_to_{last}_h_ago", f"{n}"


def _create_waiting(db: Any) -> None:
    """Creates the table of flights by origin and hour that were due by the end of the hour before and had not left."""
    db.execute(f"""
        CREATE TEMP TABLE waiting AS SELECT origin, hour + wait AS hour, sum(n)::FLOAT AS origin_waiting
        FROM (SELECT origin, hour, coalesce(left_at, 2147483647) AS left_at, sum(n) AS n FROM counted GROUP BY ALL),
          range(1, {MAX_WAIT_HOURS + 1}) waits(wait)
        WHERE left_at >= hour + wait GROUP BY ALL""")


def _create_categories(db: Any) -> None:
    """Creates the tables of codes, in the alphabetical order of the values, from 1."""
    for name in ("carrier", "origin", "dest"):
        db.execute(f"""
            CREATE TEMP TABLE {name}_codes AS SELECT {name}, row_number() OVER (ORDER BY {name})::INTEGER AS {name}_code
            FROM (SELECT DISTINCT {name} FROM counted)""")


def _write(db: Any, path: str, recent: list[str], rows: str, ordered: bool) -> None:
    """Joins and writes the rows of a split in one streaming pass."""
    joins = " ".join(f"JOIN {name}_lately USING ({', '.join(by)}, hour)" for name, (by, _) in RECENT_HOURS.items())
    coded = ", ".join(f"{name}_code AS {name}" for name in CATEGORIES[:3])
    codes = " ".join(f"JOIN {name}_codes USING ({name})" for name in CATEGORIES[:3])
    departure, arrival = (
        f"(({c} // 100 * 60 + {c} % 100) / 1440.0::DOUBLE)" for c in ("sched_dep_time", "sched_arr_time")
    )
    bands, weekdays = ([sorted(names).index(name) + 1 for name in names] for names in (BANDS, WEEKDAYS))
    db.execute(f"""
        COPY (
          SELECT flights.{"id" if ordered else "rowid"} AS row_id, {coded},
            {bands}[floor({departure} * 4)::INTEGER % 4 + 1]::INTEGER AS part_of_day,
            {weekdays}[isodow(make_date(year, month, day))]::INTEGER AS weekday,
            {departure}::FLOAT AS departure, {arrival}::FLOAT AS arrival,
            ({arrival} - {departure} + ({arrival} < {departure})::INTEGER)::FLOAT AS scheduled_block,
            distance::FLOAT AS distance, {", ".join(recent)}, coalesce(origin_waiting, 0)::FLOAT AS origin_waiting,
            (arr_delay > {LATE_MIN})::BIGINT AS label
          FROM flights {joins} LEFT JOIN waiting USING (origin, hour) {codes}
          WHERE arr_delay IS NOT NULL AND {rows} {"ORDER BY row_id" if ordered else ""})
        TO '{path}' (FORMAT parquet, COMPRESSION zstd)""")


if __name__ == "__main__":
    flights_work.main(prepare)
