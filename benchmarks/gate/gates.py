"""What promotes, from what clusters say."""

from collections.abc import Callable

import numpy as np
from scipy import special

from vgp.decision import levels
from vgp.evaluation import clusters

CONFIDENCE, NIGHTS, DAYS = 0.95, 365, 31
LEVEL = levels.tonight(CONFIDENCE, NIGHTS)
SEED = 20130701

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
        critical = levels.critical(level, seen.degrees, seen.third / error**3) * clusters.error_stretch(alike)
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


def alike(days: np.ndarray, caution: float = levels.CAUTION) -> np.ndarray:
    """The correlation that `decide` takes days (..., G) in their order to have."""
    errors = days - days.mean(axis=-1, keepdims=True)
    return clusters.assumed_correlation(clusters.neighbour_correlation(errors), days.shape[-1], caution)


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    print(f"\n#### {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
