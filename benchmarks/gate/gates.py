"""The gates: rules that decide on a promotion from the mean differences of clusters."""

from collections.abc import Callable

import numpy as np
from scipy import special

from vgp.decision import levels
from vgp.evaluation import clusters

CONFIDENCE, NIGHTS, DAYS = 0.95, 365, 31
LEVEL = levels.tonight(CONFIDENCE, NIGHTS)
SEED = 20130701

#: A gate: summaries of clusters to promotions, bool (S,).
Gate = Callable[[clusters.Moments], np.ndarray]


def build_student_gate(level: float | np.ndarray) -> Gate:
    """Returns the gate of Student's t test at one level, or at a level for each night."""
    return lambda seen: seen.estimate > -special.stdtrit(seen.degrees, level) * np.sqrt(seen.variance)


def build_corrected_gate(level: float, alike: np.ndarray | float = 0.0) -> Gate:
    """Returns the gate of `decide`: t with a corrected critical value, and no decision on too few clusters.

    Args:
        level: The level of the test.
        alike: The assumed correlation of neighbouring clusters, as `estimate_correlation` returns it.
    """

    def gate(seen: clusters.Moments) -> np.ndarray:
        error = np.sqrt(seen.variance)
        critical = levels.critical(level, seen.degrees, seen.third / error**3) * clusters.error_stretch(alike)
        enough = np.isfinite(levels.critical(level, seen.degrees)) & (seen.degrees + 1 > levels.FEWEST_CLUSTERS - 0.5)
        return np.asarray(enough & (seen.estimate > critical * error))

    return gate


def build_bootstrap_gate(level: float, replicates: int = 2_000) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the gate of the percentiles of a cluster bootstrap, expanded to a t interval."""

    def gate(days: np.ndarray) -> np.ndarray:
        count = days.shape[1]
        weights = np.random.default_rng(SEED).multinomial(count, np.full(count, 1 / count), size=replicates) / count
        tail = special.ndtr(np.sqrt(count / (count - 1)) * special.stdtrit(count - 1, level))
        return np.asarray(np.quantile(weights @ days.T, tail, axis=0) > 0)

    return gate


GATES: dict[str, Gate] = {
    "t, 5% every night": build_student_gate(1 - CONFIDENCE),
    "t, 5% / 365": build_student_gate(LEVEL),
    "**gate**": build_corrected_gate(LEVEL),
}


def summarize(days: np.ndarray, sizes: np.ndarray | None = None) -> clusters.Moments:
    """Returns the moments of clusters with these mean differences (S, G), of equal size or of `sizes` (S, G)."""
    sizes = np.ones_like(days) if sizes is None else sizes
    return clusters.estimate_mean(days * sizes, sizes)


def estimate_correlation(days: np.ndarray, caution: float = levels.CAUTION) -> np.ndarray:
    """Returns the correlation that `decide` assumes for days (..., G) in their order."""
    errors = days - days.mean(axis=-1, keepdims=True)
    return clusters.assume_correlation(clusters.neighbour_correlation(errors), days.shape[-1], caution)


def table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    print(f"\n#### {title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)
