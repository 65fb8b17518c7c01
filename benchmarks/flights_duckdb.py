"""The flights dataset in DuckDB: sums by hour, windows over the sums, and one pass over the flights that joins them.

python -m benchmarks.flights_duckdb FLIGHTS.csv DESTINATION
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks import flights_work
from benchmarks.flights_work import BANDS, CATEGORIES, INTEGERS, STRINGS, VALIDATION, WEEKDAYS
from training.tasks.flights import LATE_MIN, MAX_DELAY_MIN, MAX_WAIT_HOURS, RECENT_HOURS


def prepare(source: str, destination: Path) -> dict[str, float]:
    import duckdb

    db = duckdb.connect(str(destination / "flights.duckdb"))
    db.execute("SET preserve_insertion_order = false")
    _read(db, source)
    if db.execute("SELECT 1 FROM flights GROUP BY hour, carrier, flight HAVING count(*) > 1 LIMIT 1").fetchall():
        raise ValueError("duplicate keys")
    recent = {name: _recent(db, name, ", ".join(by), windows) for name, (by, windows) in RECENT_HOURS.items()}
    _waiting(db)
    _categories(db)
    _write(db, destination, [column for columns in recent.values() for column in columns])
    train = f"read_parquet('{destination}/split=train/*.parquet', hive_partitioning = false)"
    columns = db.execute(f"DESCRIBE SELECT * FROM {train}").fetchall()
    numbers = [name for name, kind, *_ in columns if kind == "FLOAT"]
    means = db.execute(f"SELECT {', '.join(f'avg({name}::DOUBLE)' for name in numbers)} FROM {train}").fetchone()
    return dict(zip(numbers, means, strict=True))


def _read(db: Any, source: str) -> None:
    """The columns that are needed, typed; `left_at` is the hour in which a flight really left."""
    types = {**dict.fromkeys(INTEGERS, "SMALLINT"), "flight": "INTEGER", **dict.fromkeys(STRINGS, "VARCHAR")}
    types["time_hour"] = "TIMESTAMP"
    db.execute(f"""
        CREATE TABLE flights AS
        SELECT * EXCLUDE (time_hour), hour + floor((minute + dep_delay) / 60)::INTEGER AS left_at
        FROM (SELECT {", ".join(types)}, epoch(time_hour)::INTEGER // 3600 AS hour, row_number() OVER () AS row_id
              FROM read_csv('{source}', header = true, nullstr = 'NA', types = {types}))""")


def _recent(db: Any, name: str, keys: str, windows: Any) -> list[str]:
    """Makes the table NAME_lately of (keys, hour) and returns its columns.

    The hours that are asked for join the sums as rows of nothing, so that one window function serves both.
    """
    sums = ", ".join(
        f"sum({value}) OVER (PARTITION BY {keys} ORDER BY hour RANGE BETWEEN {first} PRECEDING AND {last} PRECEDING) "
        f"AS {value}_{first}_{last}"
        for first, last in windows
        for value in ("n", "total")
    )
    columns = dict(_recent_columns(name, windows))
    db.execute(f"""
        CREATE TABLE {name}_lately AS
        WITH sums AS (
          SELECT {keys}, hour, sum(n) AS n, sum(total) AS total FROM (
            SELECT {keys}, left_at AS hour, count(*) AS n, sum(greatest(least(dep_delay, {MAX_DELAY_MIN}), 0)) AS total
            FROM flights WHERE left_at IS NOT NULL GROUP BY ALL
            UNION ALL SELECT DISTINCT {keys}, hour, 0, 0 FROM flights) GROUP BY ALL)
        SELECT {keys}, hour, {", ".join(f"{value}::FLOAT AS {column}" for column, value in columns.items())}
        FROM (SELECT {keys}, hour, {sums} FROM sums)""")
    return list(columns)


def _recent_columns(name: str, windows: Any) -> Iterator[tuple[str, str]]:
    for first, last in windows:
        n = f"coalesce(n_{first}_{last}, 0)"
        yield f"{name}_delay_{first}_to_{last}_h_ago", f"(total_{first}_{last} / nullif({n}, 0))"
        yield f"{name}_departures_{first}_to_{last}_h_ago", f"{n}"


def _waiting(db: Any) -> None:
    """By origin and hour: the flights that were due by the end of the hour before and had not left."""
    db.execute(f"""
        CREATE TABLE waiting AS SELECT origin, hour + wait AS hour, sum(n)::FLOAT AS origin_waiting
        FROM (SELECT origin, hour, coalesce(left_at, 2147483647) AS left_at, count(*) AS n FROM flights GROUP BY ALL),
          range(1, {MAX_WAIT_HOURS + 1}) waits(wait)
        WHERE left_at >= hour + wait GROUP BY ALL""")


def _categories(db: Any) -> None:
    """Codes of the values in alphabetical order, from 1."""
    for name in ("carrier", "origin", "dest"):
        db.execute(f"""
            CREATE TABLE {name}_codes AS SELECT {name}, row_number() OVER (ORDER BY {name})::INTEGER AS {name}_code
            FROM (SELECT DISTINCT {name} FROM flights)""")


def _write(db: Any, destination: Path, recent: list[str]) -> None:
    """One streaming pass: joins, features, and a folder for each split."""
    joins = " ".join(f"JOIN {name}_lately USING ({', '.join(by)}, hour)" for name, (by, _) in RECENT_HOURS.items())
    coded = ", ".join(f"{name}_code AS {name}" for name in CATEGORIES[:3])
    codes = " ".join(f"JOIN {name}_codes USING ({name})" for name in CATEGORIES[:3])
    departure, arrival = (f"(({c} // 100 * 60 + {c} % 100) / 1440.0)" for c in ("sched_dep_time", "sched_arr_time"))
    bands, weekdays = ([sorted(names).index(name) + 1 for name in names] for names in (BANDS, WEEKDAYS))
    held_out = ", ".join(f"DATE '{day}'" for day in VALIDATION)
    db.execute(f"""
        COPY (
          SELECT row_id, {coded}, {bands}[floor({departure} * 4)::INTEGER % 4 + 1]::INTEGER AS part_of_day,
            {weekdays}[isodow(make_date(year, month, day))]::INTEGER AS weekday,
            {departure}::FLOAT AS departure, {arrival}::FLOAT AS arrival,
            ({arrival} - {departure} + ({arrival} < {departure})::INTEGER)::FLOAT AS scheduled_block,
            distance::FLOAT AS distance, {", ".join(recent)}, coalesce(origin_waiting, 0)::FLOAT AS origin_waiting,
            (arr_delay > {LATE_MIN})::BIGINT AS label,
            CASE WHEN make_date(year, month, day) IN ({held_out}) THEN 'validation'
                 WHEN month <= 6 THEN 'train' ELSE 'test' END AS split
          FROM flights {joins} LEFT JOIN waiting USING (origin, hour) {codes}
          WHERE arr_delay IS NOT NULL AND month <= 7)
        TO '{destination}' (FORMAT parquet, COMPRESSION zstd, PARTITION_BY (split), OVERWRITE_OR_IGNORE)""")


if __name__ == "__main__":
    flights_work.main(prepare)
