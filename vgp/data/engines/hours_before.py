"""What rows look back on, in numpy: events by place and hour, summed over windows of the hours before.

As `vgp.data.events.windowed`, in a fifth of the time that an engine's windows take: differences of running sums,
which are of whole numbers, so nothing depends on where a batch ends.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vgp.data.events import Events

#: A sum of values is added up in two parts, of which neither can be too large.
_HALF = 32


def looked_back(sums: Iterable[pa.RecordBatch], name: str, events: Events) -> Iterator[pa.RecordBatch]:
    """What the rows of each place and hour look back on, as `windowed` has it.

    Args:
        sums: As `vgp.data.events.sums`, in the order of place and hour.
    """
    longest = max(first for first, _ in events.windows)
    before: pa.RecordBatch | None = None
    for batch in sums:
        known = batch if before is None else pa.concat_batches([before, batch])
        new = known.num_rows - batch.num_rows
        places, hours = _places(known, events.by), known["_hour"].to_numpy()
        yield _windowed(known, new, places, hours - hours.min(), name, events)
        before = known.filter(pa.array((places == places[-1]) & (hours >= hours[-1] - longest)))


def _places(rows: pa.RecordBatch, by: tuple[str, ...]) -> NDArray[np.int64]:
    """The number of each row's place, from 0."""
    other = np.zeros(rows.num_rows, bool)
    for name in by:
        other[1:] |= pc.not_equal(rows[name][1:], rows[name][:-1]).to_numpy(zero_copy_only=False)
    return np.cumsum(other)


def _windowed(
    rows: pa.RecordBatch, new: int, places: NDArray[np.int64], hours: NDArray[np.int64], name: str, events: Events
) -> pa.RecordBatch:
    """The windows of the rows from `new` on that were asked for."""
    apart = int(hours.max()) + 1 + max(first for first, _ in events.windows)
    at = places * apart + hours  # rises, and no window reaches into another place
    asked = new + np.flatnonzero(rows["_asked"].to_numpy()[new:])
    columns = {f"_{name}_{i}": rows[by].take(pa.array(asked)) for i, by in enumerate(events.by)}
    columns[f"_{name}_hour"] = rows["_hour"].take(pa.array(asked))
    total = rows["_total"].to_numpy()
    count, known, high, low = map(
        _running, (rows["_rows"].to_numpy(), rows["_known"].to_numpy(), total >> _HALF, total & ((1 << _HALF) - 1))
    )
    for first, last in events.windows:
        start, end = np.searchsorted(at, at[asked] - first), np.searchsorted(at, at[asked] - last, side="right")
        columns[f"{name}_count_{first}_{last}"] = pa.array((count[end] - count[start]).astype(np.float64))
        if events.value:
            some = known[end] - known[start]
            added = (high[end] - high[start]) * 2.0**_HALF + (low[end] - low[start])
            mean = np.divide(added, some, where=some > 0, out=np.zeros(len(asked)))
            columns[f"{name}_mean_{first}_{last}"] = pa.array(mean, mask=some == 0)
    return pa.RecordBatch.from_pydict(columns)


def _running(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(values)])
