"""Windows over the hours before, however the sums arrive."""

import ibis
import numpy as np
import pyarrow as pa

from vgp.data.events import Events, looked_back

HAPPENED = ibis.table({"place": "string", "gate": "int64", "hour": "int64", "delay": "int64"}, name="happened")
WINDOWS = ((1, 1), (5, 2), (40, 3))
LATELY = Events(HAPPENED, ("place", "gate"), WINDOWS, value="delay")
HUGE = 2**61


def sums(draw: np.random.Generator) -> pa.RecordBatch:
    """Two hundred places and hours, in order; a place has few hours or most."""
    cells = sorted({(str(p), int(g), int(h)) for p, g, h in draw.integers(0, [4, 2, 90], (200, 3))})
    places, gates, hours = zip(*cells, strict=True)
    count = len(cells)
    rows = draw.integers(0, 3, count)
    known = rows * draw.integers(0, 2, count)
    return pa.RecordBatch.from_pydict(
        {"place": places, "gate": gates, "_hour": hours, "_rows": rows, "_known": known,
         "_total": np.where(known, draw.choice([-HUGE, 7, HUGE], count), 0), "_asked": draw.integers(0, 2, count)}
    )  # fmt: skip


def one_by_one(cells: pa.RecordBatch) -> list[dict[str, object]]:
    rows, seen = cells.to_pylist(), []
    for row in (row for row in rows if row["_asked"]):
        found = {"_x_0": row["place"], "_x_1": row["gate"], "_x_hour": row["_hour"]}
        for first, last in WINDOWS:
            inside = [
                other
                for other in rows
                if (other["place"], other["gate"]) == (row["place"], row["gate"])
                and first >= row["_hour"] - other["_hour"] >= last
            ]
            known = sum(other["_known"] for other in inside)
            found[f"x_count_{first}_{last}"] = float(sum(other["_rows"] for other in inside))
            found[f"x_mean_{first}_{last}"] = sum(other["_total"] for other in inside) / known if known else None
        seen.append(found)
    return seen


def test_windows_are_those_of_the_cells_one_by_one_wherever_batches_end():
    cells = sums(np.random.default_rng(5))
    expected = one_by_one(cells)
    for rows in (1, 7, 64, 1000):
        batches = [cells.slice(start, rows) for start in range(0, len(cells), rows)]
        found = pa.Table.from_batches(looked_back(batches, "x", LATELY)).to_pylist()
        assert found == expected, f"batches of {rows}"
