"""The flights dataset as one would prepare it by hand: in pandas, and in DuckDB.

    python -m benchmarks.preparation_peers pandas FLIGHTS.csv DESTINATION

The same work as the task `flights`: check the key, leave out flights without an outcome, derive the same features,
code the categories, split into train, validation and test, write one Parquet file each, and return the mean of
every number over the train split, by which the results are compared.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.tasks.flights import LATE_MIN, MAX_DELAY_MIN, MAX_WAIT_HOURS, RECENT_HOURS

COLUMNS = [
    "year", "month", "day", "dep_delay", "sched_dep_time", "sched_arr_time", "arr_delay", "carrier", "flight",
    "origin", "dest", "distance", "minute", "time_hour",
]  # fmt: skip
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
BANDS = ("night", "morning", "afternoon", "evening")
CATEGORIES = ("carrier", "origin", "dest", "part_of_day", "weekday")
#: The days that the task holds out of January to June; a constant, since only the speed is compared.
VALIDATION = [
    "2013-01-10", "2013-02-02", "2013-02-27", "2013-02-28", "2013-03-27", "2013-05-05", "2013-06-09",
    "2013-06-12", "2013-06-27",
]  # fmt: skip


def by_pandas(source: str, destination: Path) -> dict[str, float]:
    import pandas as pd

    flights = pd.read_csv(source, usecols=COLUMNS)
    flights["hour"] = pd.to_datetime(flights["time_hour"]).astype("datetime64[s, UTC]").astype("int64") // 3600
    if flights.duplicated(["hour", "carrier", "flight"]).any():
        raise ValueError("duplicate keys")
    flights["left"] = flights["hour"] + (flights["minute"] + flights["dep_delay"]) // 60
    date = pd.to_datetime(flights[["year", "month", "day"]])
    out = pd.concat([_pandas_schedule(flights, date), _pandas_recent(flights)], axis=1)
    out["label"] = (flights["arr_delay"] > LATE_MIN).astype("int64")
    for name in CATEGORIES:
        out[name] = out[name].astype("category").cat.codes.astype("int32") + 1
    numbers = [name for name in out.columns if out[name].dtype == "float64"]
    out[numbers] = out[numbers].astype("float32")
    known, validation = flights["arr_delay"].notna(), date.isin(pd.to_datetime(VALIDATION))
    splits = {
        "train": known & (date.dt.month <= 6) & ~validation,
        "validation": known & validation,
        "test": known & (date.dt.month == 7),
    }
    for split, rows in splits.items():
        out[rows].to_parquet(destination / f"{split}.parquet", compression="zstd", index=False)
    return out.loc[splits["train"], numbers].astype("float64").mean().to_dict()


def _pandas_schedule(flights: Any, date: Any) -> Any:
    import numpy as np
    import pandas as pd

    departure, arrival = ((c // 100 * 60 + c % 100) / 1440 for c in (flights.sched_dep_time, flights.sched_arr_time))
    return pd.DataFrame({
        "row_id": np.arange(len(flights)), "carrier": flights["carrier"], "origin": flights["origin"],
        "dest": flights["dest"], "part_of_day": np.array(BANDS)[(departure * 4).astype(int) % 4],
        "weekday": np.array(WEEKDAYS)[date.dt.weekday], "departure": departure, "arrival": arrival,
        "scheduled_block": (arrival - departure) % 1, "distance": flights["distance"].astype("float64"),
    })  # fmt: skip


def _pandas_recent(flights: Any) -> Any:
    import numpy as np
    import pandas as pd

    left, delay = flights["left"].to_numpy(), flights["dep_delay"].clip(0, MAX_DELAY_MIN).to_numpy()
    start = flights["hour"].min() - 48
    hours, row, gone = int(np.nanmax(left)) - start + 48, flights["hour"].to_numpy() - start, ~np.isnan(left)
    out = {}

    def running(place: Any, value: Any) -> Any:
        sums = np.zeros((place.max() + 1, hours))
        np.add.at(sums, (place[gone], left[gone].astype(np.int64) - start + 1), value)
        return sums.cumsum(axis=1)

    for name, (by, windows) in RECENT_HOURS.items():
        place = flights.groupby(list(by)).ngroup().to_numpy()
        count, total = running(place, 1), running(place, delay[gone])
        for first, last in windows:
            n, summed = (sums[place, row - last + 1] - sums[place, row - first] for sums in (count, total))
            out[f"{name}_delay_{first}_to_{last}_h_ago"] = summed / np.where(n, n, np.nan)
            out[f"{name}_departures_{first}_to_{last}_h_ago"] = n
    origin = pd.factorize(flights["origin"])[0]
    waiting = np.zeros((origin.max() + 1, hours))
    for wait in range(1, MAX_WAIT_HOURS + 1):
        still = ~(left < row + start + wait)
        np.add.at(waiting, (origin[still], row[still] + wait), 1)
    return pd.DataFrame({**out, "origin_waiting": waiting[origin, row]})


def by_duckdb(source: str, destination: Path) -> dict[str, float]:
    import duckdb

    db = duckdb.connect()
    db.execute(f"SET temp_directory = '{destination}/spill'")
    db.execute("SET preserve_insertion_order = false")
    db.execute(f"""
        CREATE TABLE flights AS
        SELECT *, hour + (minute + dep_delay) // 60 - ((minute + dep_delay) % 60 < 0)::INT AS left_at
        FROM (SELECT {", ".join(COLUMNS)}, epoch(time_hour)::BIGINT // 3600 AS hour, row_number() OVER () AS row_id
              FROM read_csv('{source}', nullstr = ['', 'NA'], types = {{'time_hour': 'TIMESTAMP',
                'dep_delay': 'BIGINT', 'arr_delay': 'BIGINT'}}))""")
    twice = db.execute("SELECT 1 FROM flights GROUP BY hour, carrier, flight HAVING count(*) > 1 LIMIT 1").fetchall()
    if twice:
        raise ValueError("duplicate keys")
    _duckdb_features(db)
    _duckdb_write(db, destination)
    found = db.execute("SELECT * FROM features LIMIT 0").description
    numbers = [name for name, kind, *_ in found if str(kind) == "FLOAT"]
    means = db.execute(f"SELECT {', '.join(f'avg({n}::DOUBLE)' for n in numbers)} FROM features WHERE split = 'train'")
    return dict(zip(numbers, means.fetchone(), strict=True))


def _duckdb_recent(db: Any, name: str, by: Sequence[str], windows: Sequence[tuple[int, int]]) -> list[str]:
    """Makes the table NAME_lately and returns the columns to select from it."""
    keys, qualified = ", ".join(by), ", ".join(f"f.{key}" for key in by)
    db.execute(f"""
        CREATE TABLE {name}_events AS SELECT {keys}, left_at, count(*) AS n,
          sum(least(greatest(dep_delay, 0), {MAX_DELAY_MIN})) AS total
        FROM flights WHERE left_at IS NOT NULL GROUP BY {keys}, left_at""")
    sums = ", ".join(
        f"sum({value}) FILTER (left_at BETWEEN hour - {first} AND hour - {last}) AS {value}_{first}_{last}"
        for first, last in windows
        for value in ("n", "total")
    )
    same = " AND ".join(f"e.{key} = f.{key}" for key in by)
    db.execute(f"""
        CREATE TABLE {name}_lately AS SELECT {qualified}, f.hour, {sums}
        FROM (SELECT DISTINCT {keys}, hour FROM flights) f LEFT JOIN {name}_events e
          ON {same} AND e.left_at BETWEEN f.hour - {max(first for first, _ in windows)} AND f.hour - 1
        GROUP BY {qualified}, f.hour""")
    columns = []
    for first, last in windows:
        total, n = (f"{name}_lately.{value}_{first}_{last}" for value in ("total", "n"))
        columns.append(f"({total} / {n})::FLOAT AS {name}_delay_{first}_to_{last}_h_ago")
        columns.append(f"coalesce({n}, 0)::FLOAT AS {name}_departures_{first}_to_{last}_h_ago")
    return columns


def _duckdb_features(db: Any) -> None:
    recent = [column for name, spec in RECENT_HOURS.items() for column in _duckdb_recent(db, name, *spec)]
    joins = " ".join(f"JOIN {name}_lately USING ({', '.join(by)}, hour)" for name, (by, _) in RECENT_HOURS.items())
    db.execute(f"""
        CREATE TABLE waiting AS SELECT origin, hour + wait AS hour, count(*) AS waiting
        FROM flights, range(1, {MAX_WAIT_HOURS + 1}) waits(wait)
        WHERE left_at IS NULL OR left_at >= hour + wait GROUP BY ALL""")
    departure, arrival = (f"({c} // 100 * 60 + {c} % 100) / 1440.0" for c in ("sched_dep_time", "sched_arr_time"))
    db.execute(f"""
        CREATE TABLE features AS SELECT row_id, carrier, origin, dest,
          {list(BANDS)}[floor({departure} * 4)::INT % 4 + 1] AS part_of_day,
          {list(WEEKDAYS)}[isodow(make_date(year, month, day))] AS weekday,
          ({departure})::FLOAT AS departure, ({arrival})::FLOAT AS arrival,
          ({arrival} - {departure} + (({arrival}) < ({departure}))::INT)::FLOAT AS scheduled_block,
          distance::FLOAT AS distance, {", ".join(recent)}, coalesce(waiting, 0)::FLOAT AS origin_waiting,
          (arr_delay > {LATE_MIN})::BIGINT AS label,
          CASE WHEN make_date(year, month, day) IN ({", ".join(f"DATE '{d}'" for d in VALIDATION)}) THEN 'validation'
               WHEN month <= 6 THEN 'train' WHEN month = 7 THEN 'test' END AS split
        FROM flights {joins} LEFT JOIN waiting USING (origin, hour) WHERE arr_delay IS NOT NULL""")


def _duckdb_write(db: Any, destination: Path) -> None:
    for name in CATEGORIES:
        db.execute(f"""CREATE TABLE {name}_codes AS SELECT {name}, row_number() OVER (ORDER BY {name})::INT AS code
                       FROM (SELECT DISTINCT {name} FROM features)""")
    coded = ", ".join(f"{name}_codes.code AS {name}" for name in CATEGORIES)
    codes = " ".join(f"JOIN {name}_codes USING ({name})" for name in CATEGORIES)
    for split in ("train", "validation", "test"):
        db.execute(f"""
            COPY (SELECT features.* EXCLUDE (split, {", ".join(CATEGORIES)}), {coded} FROM features {codes}
                  WHERE split = '{split}') TO '{destination}/{split}.parquet' (COMPRESSION zstd)""")


if __name__ == "__main__":
    peer, source, destination = sys.argv[1:]
    print(json.dumps({"pandas": by_pandas, "duckdb": by_duckdb}[peer](source, Path(destination))))
