"""Simulates years of a sliding window: the test rows of each night are those of the last 31 days."""

import numpy as np

from benchmarks.gate.gates import (
    CONFIDENCE,
    DAYS,
    LEVEL,
    NIGHTS,
    SEED,
    build_corrected_gate,
    build_student_gate,
    estimate_correlation,
    summarize,
    table,
)
from benchmarks.gate.worlds import DISTRIBUTIONS, Draw, carry_over, draw_seasons, draw_spells
from vgp.decision import levels

NORMAL = DISTRIBUTIONS["normal"]


def cut_windows(days: np.ndarray) -> np.ndarray:
    """Returns the days of each night's test: (Y, 365 + 30) to (Y, 365, 31)."""
    return np.lib.stride_tricks.sliding_window_view(days, DAYS, axis=1)[:, :NIGHTS]


def decide_nightly(days: np.ndarray, own: np.ndarray) -> dict[str, np.ndarray]:
    """Returns whether each policy promotes, by night, bool (Y, 365).

    Args:
        days: The part that all challengers of a year share, (Y, 395), because one champion is on the other side.
        own: The part of each night's challenger on each of its days, (Y, 365, 31).
    """
    shown = cut_windows(days) + own
    summary, order = summarize(shown), estimate_correlation(shown)
    night = np.arange(NIGHTS)
    weekly = night % 7 == 6
    spending = (1 - CONFIDENCE) * 6 / np.pi**2 / (night + 1.0) ** 2
    return {
        "t, 5% every night": build_student_gate(1 - CONFIDENCE)(summary),
        "t, 5% / 365": build_student_gate(LEVEL)(summary),
        "**gate**, every night": build_corrected_gate(LEVEL, order)(summary),
        "**gate**, every week (nights = 52)": (
            build_corrected_gate(levels.tonight(CONFIDENCE, 52), order)(summary) & weekly
        ),
        "gate, days without an order": build_corrected_gate(LEVEL)(summary),
        "t, level spent early (6 / (pi k)^2)": build_student_gate(spending)(summary),
        "confidence sequence over new days": _sequence(days[:, DAYS - 1 :][:, :NIGHTS] + own[:, :, -1]),
    }  # fmt: skip


def _sequence(new: np.ndarray) -> np.ndarray:
    """Returns whether a confidence sequence of the mean difference on each night's newest day is above 0.

    The sequence is one-sided and asymptotic (Waudby-Smith et al. 2024, https://arxiv.org/abs/2103.06476, proposition
    2.2), tightest after 60 nights; the first 30 nights only estimate the variance. It is about the mean of all
    challengers so far, not about one night's own.
    """
    count = np.arange(1, NIGHTS + 1)
    mean = new.cumsum(axis=1) / count
    spread = np.sqrt(np.maximum((new**2).cumsum(axis=1) / count - mean**2, 1e-12))
    rho2 = (-2 * np.log(2 * (1 - CONFIDENCE)) + np.log(-2 * np.log(2 * (1 - CONFIDENCE)) + 1)) / 60
    scaled = count * rho2 + 1
    reach = spread * np.sqrt(2 * scaled / (count**2 * rho2) * np.log(1 + np.sqrt(scaled) / (2 * (1 - CONFIDENCE))))
    return np.asarray((mean > reach) & (count > 30))


def year(random: np.random.Generator, count: int, days: Draw, own: Draw) -> tuple[np.ndarray, np.ndarray]:
    """Draws years without a gain: the shared half of the variance, and the part of each challenger."""
    return (
        np.sqrt(0.5) * days(random, (count, NIGHTS + DAYS - 1)),
        np.sqrt(0.5) * own(random, (count, NIGHTS, DAYS)),
    )


def count_false_years(count: int, drift: float, days: Draw, own: Draw | None = None) -> dict[str, float]:
    """Returns the share of years in which a model is promoted that is no better, by policy.

    Args:
        count: The number of years.
        drift: The gain of the first night's challenger, which falls evenly to its opposite: half of them are worse.
        days: The distribution of the part that all challengers share.
        own: The distribution of the part of each challenger; None: that of `days`.
    """
    wrong = dict[str, int]()
    gains = np.linspace(drift, -drift, NIGHTS)
    for start in range(0, count, 50):
        random = np.random.default_rng([SEED, 3, start])
        shared, added = year(random, min(50, count - start), days, own or days)
        for name, promoted in decide_nightly(shared, added + gains[:, None]).items():
            wrong[name] = wrong.get(name, 0) + int((promoted & (gains <= 0)).any(axis=1).sum())
    return {name: number / count for name, number in wrong.items()}


def measure_waits(count: int, gain: float) -> dict[str, str]:
    """Returns the nights until 80% of the years have promoted a gain of so many standard deviations of a day."""
    firsts = dict[str, list[int]]()
    for start in range(0, count, 50):
        random = np.random.default_rng([SEED, 4, start])
        days, own = year(random, min(50, count - start), NORMAL, NORMAL)
        for name, promoted in decide_nightly(days, own + gain).items():
            first = np.where(promoted.any(axis=1), promoted.argmax(axis=1) + 1, NIGHTS + 1)
            firsts.setdefault(name, []).extend(first.tolist())
    waited = {name: float(np.quantile(found, levels.POWER, method="higher")) for name, found in firsts.items()}
    return {name: "more than a year" if nights > NIGHTS else f"{nights:.0f}" for name, nights in waited.items()}


def sliding(count: int) -> None:
    skewed = DISTRIBUTIONS["-exponential, skewness -2"]
    worlds = {
        "no gain": count_false_years(count, 0.0, NORMAL),
        "skewed (-exponential)": count_false_years(count, 0.0, skewed),
        "drift: 0.2 better at first, 0.2 worse at last": count_false_years(count, 0.2, NORMAL),
        "each day 0.3 of the day before": count_false_years(count, 0.0, carry_over(NORMAL, 0.3), NORMAL),
        "0.5": count_false_years(count, 0.0, carry_over(NORMAL, 0.5), NORMAL),
        "0.6": count_false_years(count, 0.0, carry_over(NORMAL, 0.6), NORMAL),
        "0.7": count_false_years(count, 0.0, carry_over(NORMAL, 0.7), NORMAL),
    }
    policies = list(next(iter(worlds.values())))
    rows = [[policy, *(f"{share[policy]:.1%}" for share in worlds.values())] for policy in policies]
    table("Years with a false promotion: the last 31 days every night", ["policy", *worlds], rows)
    sizes = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
    found = {gain: measure_waits(count, gain) for gain in sizes}
    rows = [[policy, *(found[gain][policy] for gain in sizes)] for policy in policies]
    columns = ["policy", *(f"gain {gain:g}" for gain in sizes)]
    table("Nights until 80% of the years have promoted a true gain, in standard deviations of a day", columns, rows)


def spells(count: int) -> None:
    """Returns rows for days with other correlations than the gate corrects for, in the shared and in the own parts."""
    like = {
        "each day 0.3 of the day before": carry_over(NORMAL, 0.3),
        "each day 0.5 of the day before": carry_over(NORMAL, 0.5),
        "each day 0.6 of the day before": carry_over(NORMAL, 0.6),
        "spells of 3 days share 0.5": draw_spells(3, 0.5),
        "spells of 7 days share 0.1": draw_spells(7, 0.1),
        "spells of 7 days share 0.2": draw_spells(7, 0.2),
        "spells of 7 days share 0.5": draw_spells(7, 0.5),
        "spells of 14 days share 0.3": draw_spells(14, 0.3),
        "a wave of 91 days, 0.3 high": draw_seasons(0.3),
        "a wave of 91 days, 0.6 high": draw_seasons(0.6),
    }
    rows, gate = [], "**gate**, every night"
    for name, days in like.items():
        shares = [count_false_years(count, 0.0, days, own)[gate] for own in (NORMAL, days)]
        rows.append([name, f"{_neighbours(days):.2f}", *(f"{share:.1%}" for share in shares)])
    columns = ["days", "correlation of neighbours", "only in what all challengers share", "in each one's own as well"]
    table("Years with a false promotion by the gate: spells and seasons", columns, rows)


def _neighbours(days: Draw) -> float:
    drawn = days(np.random.default_rng(SEED), (2_000, NIGHTS))
    drawn -= drawn.mean()
    return float((drawn[:, 1:] * drawn[:, :-1]).mean() / (drawn**2).mean())
