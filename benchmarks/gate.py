"""A gate over a year of nights, simulated: how many years see a model promoted that is no better, and how long a gain
of a known size waits.

    python benchmarks/gate.py [--nights 200000] [--years 400]

Every gate sees the same data, in clusters: a night's test rows are those of 31 days unless said otherwise, and one unit
is the standard deviation between days of the difference in loss. `gate` is what `decide` does: the same functions,
called with arrays. Tables are Markdown, as docs/gate.md has them. Seeded: the same numbers every time.

Shapes: S nights or Y years at once, G clusters.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
from scipy import special

from training.evaluation import clusters, consecutive, levels

CONFIDENCE, NIGHTS, DAYS = 0.95, 365, 31
LEVEL = levels.tonight(CONFIDENCE, NIGHTS)
SEED = 20130701
#: Nights that are drawn at once.
CHUNK = 20_000

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

#: Differences of a day without any gain: mean 0. A minus: the bad days are rarer and worse than the good ones.
DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "Student t, 3 degrees": lambda random, shape: random.standard_t(3, shape),
    "Laplace": lambda random, shape: random.laplace(size=shape),
    "skewed to the right (exponential)": lambda random, shape: random.standard_exponential(shape) - 1,
    "-gamma(4), skewness -1": lambda random, shape: 4 - random.standard_gamma(4, shape),
    "-lognormal(0.5), skewness -1.8": lambda random, shape: np.exp(0.125) - np.exp(0.5 * random.standard_normal(shape)),
    "-exponential, skewness -2": lambda random, shape: 1 - random.standard_exponential(shape),
    "-lognormal(1), skewness -6.2": lambda random, shape: np.exp(0.5) - np.exp(random.standard_normal(shape)),
    "5% of days cost 19 times what the others gain": lambda random, shape: (
        np.where(random.random(shape) < 0.05, -9.5, 0.5) + 0.5 * random.standard_normal(shape)
    ),
}

#: Whether a night promotes, bool (S,), from what its clusters say.
Gate = Callable[[clusters.Moments], np.ndarray]


def student(level: float | np.ndarray) -> Gate:
    """Student's t test at one level, or at one for each night."""
    return lambda seen: seen.estimate > -special.stdtrit(seen.degrees, level) * np.sqrt(seen.variance)


def corrected(level: float, alike: np.ndarray | float = 0.0) -> Gate:
    """What `decide` does: t with its critical value corrected, and no decision on fewer clusters than can carry one.

    Args:
        alike: The correlation that neighbouring clusters are taken to have, as `alike` gives it.
    """

    def gate(seen: clusters.Moments) -> np.ndarray:
        error = np.sqrt(seen.variance)
        critical = levels.critical(level, seen.degrees, seen.third / error**3) * consecutive.stretch(alike)
        enough = np.isfinite(levels.critical(level, seen.degrees)) & (seen.degrees + 1 > levels.FEWEST_CLUSTERS - 0.5)
        return np.asarray(enough & (seen.estimate > critical * error))

    return gate


def bootstrap(level: float, replicates: int = 2_000) -> Callable[[np.ndarray], np.ndarray]:
    """Percentiles of a cluster bootstrap, expanded to a t interval: the gate that there was, one night at a time."""

    def gate(days: np.ndarray) -> np.ndarray:
        count = days.shape[1]
        weights = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), size=replicates) / count
        tail = special.ndtr(np.sqrt(count / (count - 1)) * special.stdtrit(count - 1, level))
        return np.asarray(np.quantile(weights @ days.T, tail, axis=0) > 0)

    return gate


GATES: dict[str, Gate] = {
    "t, 5% every night": student(1 - CONFIDENCE),
    "t, 5% / 365": student(LEVEL),
    "**gate**": corrected(LEVEL),
}


def seen(days: np.ndarray, sizes: np.ndarray | None = None) -> clusters.Moments:
    """What clusters (S, G) of these mean differences say; of one size, or of `sizes` (S, G)."""
    sizes = np.ones_like(days) if sizes is None else sizes
    return clusters.of_clusters(days * sizes, sizes)


def alike(days: np.ndarray) -> np.ndarray:
    """The correlation that `decide` takes days (..., G) in their order to have."""
    errors = days - days.mean(axis=-1, keepdims=True)
    return consecutive.assumed(consecutive.carried(errors), days.shape[-1], levels.CAUTION)


def chunks(nights: int, seed: int) -> Iterator[tuple[np.random.Generator, int]]:
    """A generator and a number of nights, until there are as many as asked for."""
    random = np.random.default_rng([SEED, seed])
    for start in range(0, nights, CHUNK):
        yield random, min(CHUNK, nights - start)


def years(promoted: float, nights: int) -> str:
    """The share of years of independent nights with a promotion, from the number of nights that had one."""
    return f"{1 - (1 - promoted / nights) ** NIGHTS:.1%}"


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    print(f"\n### {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


# ---- nights that share nothing: the most tests that a year can hold


def false_nights(draw: Draw, days: int, nights: int, sizes: Draw | None = None) -> list[int]:
    """How many of so many nights without a gain each of `GATES` promotes on."""
    counts = np.zeros(len(GATES), np.int64)
    for random, some in chunks(nights, days):
        differences = draw(random, (some, days))
        told = seen(differences, sizes(random, (some, days)) if sizes else None)
        gates = {**GATES, "**gate**": corrected(LEVEL, alike(differences))}
        counts += [int(gate(told).sum()) for gate in gates.values()]
    return counts.tolist()


def tails(nights: int) -> None:
    rows = []
    for name, draw in DISTRIBUTIONS.items():
        cells = []
        for days in (10, 15, 20, DAYS, 100, 365):
            some = max(CHUNK, nights * DAYS // max(days, DAYS))  # as many days in all
            _, plain, found = (years(count, some) for count in false_nights(draw, days, some))
            cells.append(f"{plain} / {found}")
        rows.append([name, *cells])
    columns = ["differences", "10 days", "15 days", "20 days", f"{DAYS} days", "100 days", "365 days"]
    table("Years with a false promotion, 365 nights of fresh rows: t at 5% / 365, and **gate**", columns, rows)
    unequal = [
        [name, *(years(count, nights) for count in false_nights(DISTRIBUTIONS["normal"], DAYS, nights, sizes))]
        for name, sizes in {
            "lognormal(0.5)": lambda random, shape: np.exp(0.5 * random.standard_normal(shape)),
            "lognormal(1)": lambda random, shape: np.exp(random.standard_normal(shape)),
        }.items()
    ]
    table(f"The same, {DAYS} days of unequal size", ["sizes", *GATES], unequal)


def bootstraps(nights: int) -> None:
    """The bootstrap takes 2,000 products a night: fewer nights."""
    rows = []
    for name in ("normal", "-exponential, skewness -2"):
        counts = np.zeros(2, np.int64)
        for random, some in chunks(nights, 1):
            differences = DISTRIBUTIONS[name](random, (some, DAYS))
            counts += [int(bootstrap(level)(differences).sum()) for level in (1 - CONFIDENCE, LEVEL)]
        rows.append([name, str(DAYS), *(years(count, nights) for count in counts.tolist())])
    columns = ["differences", "days", "bootstrap, 5% every night", "bootstrap, 5% / 365"]
    table("The same, by bootstrap: 2,000 replicates have 0.3 draws in that tail", columns, rows)


# ---- rows that two columns make dependent


def two_ways(nights: int, users: int = 40) -> None:
    """Days and users, a row for each of both: clustered by day, and by both."""
    rows = []
    for name, of_user in (("days alone matter", 0.0), ("users matter as much", 1.0), ("users matter most", 2.0)):
        counts = np.zeros(3, np.int64)
        for random, some in chunks(nights // 10, 2):
            effects = of_user * random.standard_normal((some, 1, users)) + random.standard_normal((some, DAYS, 1))
            values = effects + 2 * random.standard_normal((some, DAYS, users))
            by_day, by_user, cells = (
                clusters.of_clusters(part, np.ones_like(part))
                for part in (values.sum(axis=2), values.sum(axis=1), values.reshape(some, -1))
            )
            both = clusters.two_way(by_day, by_user, cells)
            counts += [int(gate(told).sum()) for gate, told in (
                (student(LEVEL), by_day), (student(LEVEL), both), (corrected(LEVEL), both),
            )]  # fmt: skip
        rows.append([name, *(years(count, nights // 10) for count in counts.tolist())])
    columns = [f"{DAYS} days x {users} users", "t by day", "t by day and user", "**gate**, by day and user"]
    table("Years with a false promotion: rows that days and users make dependent", columns, rows)


# ---- years of a sliding window: each night's rows are the last 31 days'


def windows(days: np.ndarray) -> np.ndarray:
    """(Y, 365 + 30) days -> (Y, 365, 31): what each night tests on."""
    return np.lib.stride_tricks.sliding_window_view(days, DAYS, axis=1)[:, :NIGHTS]


def nightly(days: np.ndarray, own: np.ndarray) -> dict[str, np.ndarray]:
    """Whether each policy promotes, by night, bool (Y, 365).

    Args:
        days: What all challengers of a year share, (Y, 395): they are held against one champion on the same days.
        own: What a night's challenger adds on each of its days, (Y, 365, 31).
    """
    shown = windows(days) + own
    told, order = seen(shown), alike(shown)
    night = np.arange(NIGHTS)
    weekly = night % 7 == 6
    spending = (1 - CONFIDENCE) * 6 / np.pi**2 / (night + 1.0) ** 2
    return {
        "t, 5% every night": student(1 - CONFIDENCE)(told),
        "t, 5% / 365": student(LEVEL)(told),
        "**gate**, every night": corrected(LEVEL, order)(told),
        "**gate**, every week (nights = 52)": corrected(levels.tonight(CONFIDENCE, 52), order)(told) & weekly,
        "gate, days without an order": corrected(LEVEL)(told),
        "t, level spent early (6 / (pi k)^2)": student(spending)(told),
        "confidence sequence over new days": _sequence(days[:, DAYS - 1 :][:, :NIGHTS] + own[:, :, -1]),
    }  # fmt: skip


def _sequence(new: np.ndarray) -> np.ndarray:
    """Whether a one-sided asymptotic confidence sequence of the mean difference on each night's newest day is above 0
    (Waudby-Smith et al. 2024, https://arxiv.org/abs/2103.06476, proposition 2.2), tightest after 60 nights; the first
    30 nights only estimate the variance.

    It is about the mean of all challengers so far: a night's own is not asked for.
    """
    count = np.arange(1, NIGHTS + 1)
    mean = new.cumsum(axis=1) / count
    spread = np.sqrt(np.maximum((new**2).cumsum(axis=1) / count - mean**2, 1e-12))
    rho2 = (-2 * np.log(2 * (1 - CONFIDENCE)) + np.log(-2 * np.log(2 * (1 - CONFIDENCE)) + 1)) / 60
    scaled = count * rho2 + 1
    reach = spread * np.sqrt(2 * scaled / (count**2 * rho2) * np.log(1 + np.sqrt(scaled) / (2 * (1 - CONFIDENCE))))
    return np.asarray((mean > reach) & (count > 30))


def year(random: np.random.Generator, count: int, draw: Draw, carried: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Years without a gain: what is shared, half of the variance, and what each challenger adds.

    Args:
        carried: How much of a day's difference is that of the day before (an autoregression of order 1).
    """
    days = draw(random, (count, NIGHTS + DAYS - 1))
    for day in range(1, days.shape[1]) if carried else ():
        days[:, day] = carried * days[:, day - 1] + np.sqrt(1 - carried**2) * days[:, day]
    return np.sqrt(0.5) * days, np.sqrt(0.5) * draw(random, (count, NIGHTS, DAYS))


def false_years(count: int, drift: float, draw: Draw, carried: float = 0.0) -> dict[str, float]:
    """The share of years in which a model is promoted that is no better, by policy.

    Args:
        drift: The gain of the first night's challenger, which falls evenly to the opposite: half of them are worse.
    """
    wrong = dict[str, int]()
    gains = np.linspace(drift, -drift, NIGHTS)
    for start in range(0, count, 50):
        random = np.random.default_rng([SEED, 3, start])
        days, own = year(random, min(50, count - start), draw, carried)
        for name, promoted in nightly(days, own + gains[:, None]).items():
            wrong[name] = wrong.get(name, 0) + int((promoted & (gains <= 0)).any(axis=1).sum())
    return {name: number / count for name, number in wrong.items()}


def waits(count: int, gain: float) -> dict[str, str]:
    """Nights until 80% of the years have promoted a gain of so many standard deviations of a day."""
    firsts = dict[str, list[int]]()
    for start in range(0, count, 50):
        random = np.random.default_rng([SEED, 4, start])
        days, own = year(random, min(50, count - start), DISTRIBUTIONS["normal"])
        for name, promoted in nightly(days, own + gain).items():
            first = np.where(promoted.any(axis=1), promoted.argmax(axis=1) + 1, NIGHTS + 1)
            firsts.setdefault(name, []).extend(first.tolist())
    waited = {name: float(np.quantile(found, levels.POWER, method="higher")) for name, found in firsts.items()}
    return {name: "more than a year" if nights > NIGHTS else f"{nights:.0f}" for name, nights in waited.items()}


def sliding(count: int) -> None:
    normal, skewed = DISTRIBUTIONS["normal"], DISTRIBUTIONS["-exponential, skewness -2"]
    worlds = {
        "no gain": false_years(count, 0.0, normal),
        "skewed (-exponential)": false_years(count, 0.0, skewed),
        "drift: 0.2 better at first, 0.2 worse at last": false_years(count, 0.2, normal),
        "each day 0.3 of the day before": false_years(count, 0.0, normal, 0.3),
        "0.5": false_years(count, 0.0, normal, 0.5),
        "0.6": false_years(count, 0.0, normal, 0.6),
        "0.7": false_years(count, 0.0, normal, 0.7),
    }
    policies = list(next(iter(worlds.values())))
    rows = [[policy, *(f"{share[policy]:.1%}" for share in worlds.values())] for policy in policies]
    table("Years with a false promotion: the last 31 days every night", ["policy", *worlds], rows)
    sizes = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
    found = {gain: waits(count, gain) for gain in sizes}
    rows = [[policy, *(found[gain][policy] for gain in sizes)] for policy in policies]
    columns = ["policy", *(f"gain {gain:g}" for gain in sizes)]
    table("Nights until 80% of the years have promoted a true gain, in standard deviations of a day", columns, rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nights", type=int, default=200_000, help="nights without a gain, for each distribution")
    options.add_argument("--years", type=int, default=400, help="years of overlapping windows")
    given = options.parse_args()
    began = time.monotonic()
    tails(given.nights)
    bootstraps(min(given.nights, 20_000))
    two_ways(given.nights)
    sliding(given.years)
    print(f"\n{given.nights:,} nights, {given.years} years; {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
