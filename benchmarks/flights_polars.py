"""Prepares the flights dataset in Polars: sums on a grid of hours, differences of running sums, streaming queries.

python -m benchmarks.flights_polars FOLDER DESTINATION YEARS [ordered]
"""

from pathlib import Path
from typing import Any

import polars as pl
from polars import col

from benchmarks import flights_work
from benchmarks.flights_work import BANDS, CATEGORIES, COLUMNS, INTEGERS, STRINGS, WEEKDAYS, Months
from training.tasks.flights import LATE_MIN, MAX_DELAY_MIN, MAX_WAIT_HOURS, RECENT_HOURS

TYPES = {
    **dict.fromkeys(INTEGERS, pl.Int16), "flight": pl.Int32, **dict.fromkeys(STRINGS, pl.Categorical),
    "time_hour": pl.String,
}  # fmt: skip
#: Digits of a time such as 2013-01-01T10:00:00Z.
HOUR_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


def prepare(source: str, destination: Path, months: Months, ordered: bool = False) -> dict[str, float]:
    # The text is read once, in narrow types, because a second pass would cost more than the memory.
    flights = _read(source).collect(engine="streaming").with_row_index("row_id")
    carrier = col("carrier").to_physical().cast(pl.Int64)
    keys = flights.select((col("hour").cast(pl.Int64) * 10_000_000 + col("flight")) * 256 + carrier).to_series()
    if keys.n_unique() < len(keys):
        raise ValueError("duplicate keys")
    del keys
    if ordered:
        flights = flights.with_columns(row_id=_compute_ids(flights))
    counts = _count(flights.lazy(), months).collect(engine="streaming")
    joined = flights.lazy().filter(col("arr_delay").is_not_null(), _compute_month() <= months.test)
    for name, (by, windows) in RECENT_HOURS.items():
        joined = joined.join(_compute_recent(counts, name, list(by), windows).lazy(), on=[*by, "hour"], how="left")
    joined = joined.join(_count_waiting(counts).lazy(), on=["origin", "hour"], how="left")
    features = _compute_features(joined, months)
    return _write(features.sort("row_id") if ordered else features, destination)


def _read(source: str) -> pl.LazyFrame:
    files, parquet = flights_work.find_files(source)
    if parquet:
        raw = pl.scan_parquet(files).select(col(name).cast(TYPES[name]) for name in COLUMNS if name != "time_hour")
        hour = pl.scan_parquet(files).select(hour=(col("time_hour").dt.epoch("s") // 3600).cast(pl.Int32))
        raw = pl.concat([raw, hour], how="horizontal")
    else:
        raw = pl.scan_csv(files, schema_overrides=TYPES, null_values="NA").select(COLUMNS)
        time = col("time_hour").str.to_datetime(HOUR_FORMAT, time_unit="ms", time_zone=None)
        raw = raw.with_columns((time.dt.epoch("s") // 3600).cast(pl.Int32).alias("hour")).drop("time_hour")
    return raw.with_columns(left_at=col("hour") + (col("minute") + col("dep_delay")).floordiv(60))


def _compute_ids(flights: pl.DataFrame) -> pl.Series:
    """Returns row ids computed by DuckDB, because Polars has no MD5, and Python's is slower."""
    import duckdb

    keys = flights.select("hour", col("carrier").cast(pl.String), "flight").to_arrow()
    numbers = duckdb.sql(f"SELECT {flights_work.compute_md5_number('hour::BIGINT')} AS id FROM keys").to_arrow_table()
    assert len(keys) == len(numbers)
    return pl.Series(pl.from_arrow(numbers["id"]))


def _count(flights: pl.LazyFrame, months: Months) -> pl.LazyFrame:
    """Returns departures and the sum of their delays, at the finest grain that the windows need.

    Copies of one year share that grain; in consecutive years nearly every flight has its own.
    """
    grain, delay = ("origin", "carrier", "dest", "hour", "left_at"), col("dep_delay").clip(0, MAX_DELAY_MIN)
    if months.years > 1:
        return flights.select(*grain, n=pl.lit(1, pl.UInt32), total=delay.cast(pl.Int64))
    return flights.group_by(*grain).agg(n=pl.len(), total=delay.sum())


def _compute_recent(counts: pl.DataFrame, name: str, by: list[str], windows: Any) -> pl.DataFrame:
    """Returns mean delay and number of departures over the windows, by keys and hour, without any later hour."""
    sums = (
        counts.filter(col("left_at").is_not_null())
        .group_by(*by, hour=col("left_at"))
        .agg(col("n").sum().cast(pl.Int64), col("total").sum().cast(pl.Int64))
    )
    wanted = counts.select(*by, "hour").unique()
    cells = pl.concat([sums, wanted.with_columns(n=pl.lit(0, pl.Int64), total=pl.lit(0, pl.Int64))])
    cells = cells.group_by(*by, "hour").agg(col("n").sum(), col("total").sum()).sort(*by, "hour")
    frame = cells.with_columns(cells.select(col("n", "total").cum_sum().over(by).name.prefix("until_")))
    running = frame.select(*by, "hour", "until_n", "until_total")
    lately = wanted.sort("hour")
    for bound in sorted({hours for first, last in windows for hours in (first + 1, last)}):
        past = running.rename({"until_n": f"n_{bound}", "until_total": f"total_{bound}"}).sort("hour")
        lately = lately.with_columns(at=col("hour") - bound).sort("at")
        lately = lately.join_asof(past, left_on="at", right_on="hour", by=by, suffix="_past", check_sortedness=False)
        lately = lately.drop("at", "hour_past", strict=False)
    columns = []
    for first, last in windows:
        n, total = (
            col(f"{value}_{last}").fill_null(0) - col(f"{value}_{first + 1}").fill_null(0) for value in ("n", "total")
        )
        columns.append(pl.when(n > 0).then(total / n).cast(pl.Float32).alias(f"{name}_delay_{first}_to_{last}_h_ago"))
        columns.append(n.cast(pl.Float32).alias(f"{name}_departures_{first}_to_{last}_h_ago"))
    return lately.select(*by, "hour", *columns)


def _count_waiting(counts: pl.DataFrame) -> pl.DataFrame:
    """Returns the flights, by origin and hour, that were due by the end of the hour before and had not left."""
    spread = counts.select("origin", "hour", "left_at", "n").join(
        pl.DataFrame({"wait": range(1, MAX_WAIT_HOURS + 1)}, schema={"wait": pl.Int32}), how="cross"
    )
    still = spread.filter(col("left_at").is_null() | (col("left_at") >= col("hour") + col("wait")))
    return still.group_by("origin", hour=col("hour") + col("wait")).agg(origin_waiting=col("n").sum().cast(pl.Float32))


def _compute_month() -> pl.Expr:
    """Returns `flights_work.MONTH` as a Polars expression."""
    return (col("year").cast(pl.Int32) - 2013) * 12 + col("month")


def _compute_features(joined: pl.LazyFrame, months: Months) -> pl.LazyFrame:
    departure, arrival = ((col(c) // 100 * 60 + col(c) % 100) / 1440 for c in ("sched_dep_time", "sched_arr_time"))
    date = pl.date("year", "month", "day")
    bands, weekdays = (pl.Series([sorted(names).index(name) + 1 for name in names]) for names in (BANDS, WEEKDAYS))
    numbers = [column for column in joined.collect_schema() if "_h_ago" in column]
    held_out = pl.Series(months.validation()).str.to_date()
    return joined.select(
        "row_id", *CATEGORIES[:3],
        part_of_day=((departure * 4).cast(pl.Int32) % 4).replace_strict(dict(enumerate(bands)), return_dtype=pl.Int32),
        weekday=(date.dt.weekday() - 1).replace_strict(dict(enumerate(weekdays)), return_dtype=pl.Int32),
        departure=departure.cast(pl.Float32), arrival=arrival.cast(pl.Float32),
        scheduled_block=(arrival - departure + (arrival < departure)).cast(pl.Float32),
        distance=col("distance").cast(pl.Float32),
        **{name: col(name) for name in numbers}, origin_waiting=col("origin_waiting").fill_null(0),
        label=(col("arr_delay") > LATE_MIN).cast(pl.Int64),
        split=pl.when(date.is_in(held_out.implode())).then(pl.lit("validation"))
        .when(_compute_month() <= months.train).then(pl.lit("train")).otherwise(pl.lit("test")),
    )  # fmt: skip


def _write(features: pl.LazyFrame, destination: Path) -> dict[str, float]:
    features.sink_parquet(pl.PartitionBy(destination, key="split", include_key=False), compression="zstd", mkdir=True)
    train = pl.scan_parquet(destination / "split=train")
    numbers = [name for name, kind in train.collect_schema().items() if kind == pl.Float32]
    return train.select(col(numbers).cast(pl.Float64).mean()).collect(engine="streaming").row(0, named=True)


if __name__ == "__main__":
    flights_work.main(prepare)
