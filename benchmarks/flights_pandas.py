"""Prepares the flights dataset in pandas, read by Arrow's parser: arrays of sums by hour, and their differences.

python -m benchmarks.flights_pandas FOLDER DESTINATION YEARS
"""

from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

from benchmarks import flights_work
from benchmarks.flights_work import BANDS, CATEGORIES, COLUMNS, WEEKDAYS, Months
from training.tasks.flights import LATE_MIN, MAX_DELAY_MIN, MAX_WAIT_HOURS, RECENT_HOURS


def prepare(source: str, destination: Path, months: Months, ordered: bool = False) -> dict[str, float]:
    import pandas as pd

    files, parquet = flights_work.find_files(source)
    read = (
        partial(pd.read_parquet, columns=COLUMNS)
        if parquet
        else partial(pd.read_csv, usecols=COLUMNS, engine="pyarrow")
    )
    flights = pd.concat(map(read, sorted(glob(files))), ignore_index=True)
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
    known, validation = flights["arr_delay"].notna(), date.isin(pd.to_datetime(months.validation()))
    month = (date.dt.year - 2013) * 12 + date.dt.month
    splits = {
        "train": known & (month <= months.train) & ~validation,
        "validation": known & validation,
        "test": known & (month > months.train) & (month <= months.test),
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
        "weekday": np.array(WEEKDAYS)[date.dt.day_of_week], "departure": departure, "arrival": arrival,
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


if __name__ == "__main__":
    flights_work.main(prepare)
