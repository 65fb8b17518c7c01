"""Simulates independent nights, the largest number of independent tests in a year."""

from collections.abc import Iterator

import numpy as np

from benchmarks.gate import worlds
from benchmarks.gate.gates import (
    CONFIDENCE,
    DAYS,
    GATES,
    LEVEL,
    NIGHTS,
    SEED,
    build_bootstrap_gate,
    build_corrected_gate,
    build_student_gate,
    estimate_correlation,
    summarize,
    table,
)
from vgp.evaluation import clusters

#: Number of nights drawn at once.
CHUNK = 20_000


def chunks(nights: int, seed: int) -> Iterator[tuple[np.random.Generator, int]]:
    """Yields a random generator and a number of nights, until `nights` are reached."""
    random = np.random.default_rng([SEED, seed])
    for start in range(0, nights, CHUNK):
        yield random, min(CHUNK, nights - start)


def years(promoted: float, nights: int) -> str:
    """Returns the share of years of independent nights with a promotion, from the number of nights with one."""
    return f"{1 - (1 - promoted / nights) ** NIGHTS:.1%}"


def count_false_nights(draw: worlds.Draw, days: int, nights: int, sizes: worlds.Draw | None = None) -> list[int]:
    """Returns how many nights without a gain each of `GATES` promotes on."""
    counts = np.zeros(len(GATES), np.int64)
    for random, some in chunks(nights, days):
        differences = draw(random, (some, days))
        summary = summarize(differences, sizes(random, (some, days)) if sizes else None)
        gates = {**GATES, "**gate**": build_corrected_gate(LEVEL, estimate_correlation(differences))}
        counts += [int(gate(summary).sum()) for gate in gates.values()]
    return counts.tolist()


def tails(nights: int) -> None:
    rows = []
    for name, draw in worlds.DISTRIBUTIONS.items():
        cells = []
        for days in (10, 15, 20, DAYS, 100, 365):
            some = max(CHUNK, nights * DAYS // max(days, DAYS))  # the total number of days stays equal
            _, plain, found = (years(count, some) for count in count_false_nights(draw, days, some))
            cells.append(f"{plain} / {found}")
        rows.append([name, *cells])
    columns = ["differences", "10 days", "15 days", "20 days", f"{DAYS} days", "100 days", "365 days"]
    table("Years with a false promotion, 365 nights of fresh rows: t at 5% / 365, and **gate**", columns, rows)
    unequal = [
        [
            name,
            *(
                years(count, nights)
                for count in count_false_nights(worlds.DISTRIBUTIONS["normal"], DAYS, nights, sizes)
            ),
        ]
        for name, sizes in {
            "lognormal(0.5)": lambda random, shape: np.exp(0.5 * random.standard_normal(shape)),
            "lognormal(1)": lambda random, shape: np.exp(random.standard_normal(shape)),
        }.items()
    ]
    table(f"The same, {DAYS} days of unequal size", ["sizes", *GATES], unequal)


def rare_days(nights: int) -> None:
    """Returns rows for days of two kinds, by the rarity of the bad ones."""
    parts, rows = (0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03), []
    for days in (15, 20, DAYS, 60, 100, 180, 365):
        some, cells = max(CHUNK, nights * DAYS // max(days, DAYS)), []
        for bad in parts:
            cells.append(years(count_false_nights(worlds.mix_two_kinds(bad, 0.5), days, some)[-1], some))
        rows.append([str(days), f"{1 - LEVEL ** (1 / days):.1%}", *cells])
    columns = ["days", "surely seen from", *(f"{bad:.0%} bad" for bad in parts)]
    table("Years with a false promotion by the gate, if some days cost what all others gain", columns, rows)


def bootstraps(nights: int) -> None:
    """Returns rows of the bootstrap, for fewer nights, because each night takes 2,000 products."""
    rows = []
    for name in ("normal", "-exponential, skewness -2"):
        counts = np.zeros(2, np.int64)
        for random, some in chunks(nights, 1):
            differences = worlds.DISTRIBUTIONS[name](random, (some, DAYS))
            counts += [int(build_bootstrap_gate(level)(differences).sum()) for level in (1 - CONFIDENCE, LEVEL)]
        rows.append([name, str(DAYS), *(years(count, nights) for count in counts.tolist())])
    columns = ["differences", "days", "bootstrap, 5% every night", "bootstrap, 5% / 365"]
    table("The same, by bootstrap: 2,000 replicates have 0.3 draws in that tail", columns, rows)


def two_ways(nights: int, users: int = 40) -> None:
    """Returns rows for days and users: clustered by day, and by both."""
    rows = []
    for name, of_user in (("days alone matter", 0.0), ("users matter as much", 1.0), ("users matter most", 2.0)):
        counts = np.zeros(3, np.int64)
        for random, some in chunks(nights // 10, 2):
            effects = of_user * random.standard_normal((some, 1, users)) + random.standard_normal((some, DAYS, 1))
            values = effects + 2 * random.standard_normal((some, DAYS, users))
            by_day, by_user, cells = (
                clusters.estimate_mean(part, np.ones_like(part))
                for part in (values.sum(axis=2), values.sum(axis=1), values.reshape(some, -1))
            )
            both = clusters.two_way(by_day, by_user, cells)
            counts += [int(gate(summary).sum()) for gate, summary in (
                (build_student_gate(LEVEL), by_day), (build_student_gate(LEVEL), both),
                (build_corrected_gate(LEVEL), both),
            )]  # fmt: skip
        rows.append([name, *(years(count, nights // 10) for count in counts.tolist())])
    columns = [f"{DAYS} days x {users} users", "t by day", "t by day and user", "**gate**, by day and user"]
    table("Years with a false promotion: rows that days and users make dependent", columns, rows)
