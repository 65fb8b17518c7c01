"""Computes the smallest gain that a test window shows, by the length of the window."""

import numpy as np

from benchmarks.gate.gates import CONFIDENCE, SEED, estimate_correlation, summarize, table
from vgp.decision import levels
from vgp.evaluation import clusters

#: Random numbers for each figure, in samples of the window's length.
DRAWN = 1_000_000
DECISIONS = (1, 12, 52, 365)


def smallest_gains() -> None:
    rows = [
        [f"{days} days", *(_cell(days, nights, True) for nights in DECISIONS)] for days in (15, 31, 61, 92, 183, 365)
    ] + [[f"{rows:,} rows", *(_cell(rows, nights, False) for nights in DECISIONS)] for rows in (100, 1_000, 10_000)]
    columns = ["test rows of", "a single decision", *(f"of {nights} a year" for nights in DECISIONS[1:])]
    table(
        "The gain that the test of one night sees with 80% probability, in standard deviations of a day, or row",
        columns,
        rows,
    )


def _cell(groups: int, nights: int, order: bool) -> str:
    enough = groups >= levels.fewest(_level(nights, order))
    return f"{smallest_gain(groups, nights, order):.2g}" if enough else "none"


def _level(nights: int, order: bool) -> float:
    """Returns the level of the test, which shares it with the evidence if there are days and several nights."""
    return levels.tonight(CONFIDENCE, nights) / (2 if order and nights > 1 else 1)


def smallest_gain(groups: int, nights: int, order: bool, drawn: int = DRAWN) -> float:
    """Returns the gain in standard deviations of a group, for independent groups, with an order or without."""
    random, needed = np.random.default_rng([SEED, 5, groups]), []
    count = min(20_000, max(200, drawn // groups))
    for start in range(0, count, 200):
        values = random.standard_normal((min(200, count - start), groups))
        summary, caution = summarize(values), levels.CAUTION if nights > 1 else 0.0
        error = np.sqrt(summary.variance)
        stretch = clusters.error_stretch(estimate_correlation(values, caution)) if order else 1.0
        critical = levels.critical(_level(nights, order), summary.degrees, summary.third / error**3) * stretch
        needed.append(critical * error - summary.estimate)
    return float(np.quantile(np.concatenate(needed), levels.POWER))
