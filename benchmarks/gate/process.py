"""Both halves of the gate beside its test alone: years of nights, with the evidence that a registry would have.

`evidence` is `vgp.registry.evidence` for arrays; tests/vgp/registry/test_evidence.py compares both night by night.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from benchmarks.gate import worlds
from benchmarks.gate.gates import (
    CONFIDENCE,
    DAYS,
    LEVEL,
    NIGHTS,
    SEED,
    build_corrected_gate,
    estimate_correlation,
    summarize,
    table,
)  # fmt: skip
from benchmarks.gate.worlds import Draw
from vgp.decision import levels
from vgp.decision.evidence import AHEAD
from vgp.registry.evidence import FEWEST_DAYS, REACH, STAKES, WEEK

#: Evidence that promotes with half of the error, and with all of it.
HALF, WHOLE = 2 / (1 - CONFIDENCE), 1 / (1 - CONFIDENCE)
POLICIES = ("test alone", "**both halves**", "`worst_day`")


def evidence(shown: np.ndarray, sizes: np.ndarray | None = None, worst_day: float = 0.0) -> np.ndarray:
    """Returns the evidence after each night, (Y, nights).

    Args:
        shown: Mean gain of each night's challenger on each day of its window, (Y, nights, days); a night adds one day.
        sizes: Rows of each day, (Y, nights + days - 1); None = equal.
        worst_day: What one day may cost at worst; 0 = not stated.
    """
    count, nights, window = shown.shape
    whole = np.ones((count, nights + window - 1)) if sizes is None else sizes
    means = whole.cumsum(axis=1)[:, window - 2 : -1] / np.arange(window - 1, nights + window - 1)  # before each night
    gains = shown * np.lib.stride_tricks.sliding_window_view(whole, window, axis=1) / means[:, :, None]
    newest = gains[:, :, -1]
    record = np.concatenate([gains[:, 0, :-1], newest], axis=1)
    squares = (record**2).cumsum(axis=1) - record.cumsum(axis=1) ** 2 / np.arange(1, record.shape[1] + 1)
    wealth, total, opened = np.zeros((count, len(STAKES))), np.ones((count, nights)), -1
    for night in range(nights):
        learned = window - 1 + night
        if opened < 0 and learned >= FEWEST_DAYS:
            opened = night
            spread = np.sqrt(np.maximum(squares[:, learned - 1], 0) / (learned - 1))
            unit = np.maximum(gains[:, night, :-1].std(axis=1, ddof=1), spread)
            largest = np.maximum(whole[:, :learned].max(axis=1) / means[:, night], 1.0)
            unit = np.maximum(unit, worst_day * largest / (REACH * np.sqrt(WEEK)))
        if opened >= 0 and night - opened == WEEK - 1:
            x = np.clip(newest[:, opened : night + 1].mean(axis=1) / (REACH * unit / np.sqrt(WEEK)), -1, 1)
            wealth, opened = wealth + np.log1p(np.asarray(STAKES) * x[:, None]), -1
        total[:, night] = np.exp(wealth).mean(axis=1)
    return total


def nightly(shown: np.ndarray, worst_day: float, sizes: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Returns whether each policy promotes, by night, bool (Y, nights); arguments as in `evidence`."""
    window = shown.shape[2]
    widths = None if sizes is None else np.lib.stride_tricks.sliding_window_view(sizes, window, axis=1)
    moments = summarize(shown, widths)
    order = estimate_correlation(shown if widths is None else shown * widths)
    ahead = moments.estimate > -special.stdtrit(moments.degrees, AHEAD) * np.sqrt(moments.variance)
    test = build_corrected_gate(LEVEL / 2, order)(moments)
    total, bounded = evidence(shown, sizes), evidence(shown, sizes, worst_day)
    needed = HALF if window >= levels.fewest(LEVEL / 2) else WHOLE
    promoted = (
        build_corrected_gate(LEVEL, order)(moments),
        test | (ahead & (total >= needed)),
        ahead & (bounded >= WHOLE),
    )
    return dict(zip(POLICIES, promoted, strict=True))


@dataclass(frozen=True)
class World:
    """What all challengers share, what each adds, and what one day costs at worst, in standard deviations of a day."""

    days: Draw
    own: Draw = worlds.DISTRIBUTIONS["normal"]
    worst: float = 5.0
    #: Factor on the rows of bad days; 0 = all days are equal.
    large: float = 0.0
    #: The gain of the first night's challenger, which falls evenly to the opposite: half of them are worse.
    drift: float = 0.0


NORMAL, SKEWED = worlds.DISTRIBUTIONS["normal"], worlds.DISTRIBUTIONS["-exponential, skewness -2"]


def rare(bad: float, scale: float = 1.0) -> World:
    """A part of the days costs what all others gain, `scale` each."""
    return World(
        lambda random, shape: scale * worlds.mix_two_kinds(bad, 0.5)(random, shape), worst=scale * (1 / bad + 1)
    )


def unit(bad: float) -> float:
    """The scale at which such days have the standard deviation 1."""
    return float((1 / bad - 0.75) ** -0.5)


WORLDS: dict[str, World] = {
    "normal": World(NORMAL),
    "drift: 0.2 better at first, 0.2 worse at last": World(NORMAL, drift=0.2),
    "drift: 0.5 better at first, 0.5 worse at last": World(NORMAL, drift=0.5),
    "skewed (-exponential), also each one's own": World(SKEWED, SKEWED, worst=10),
    "each day 0.3 of the day before": World(worlds.carry_over(NORMAL, 0.3)),
    "0.6 of the day before": World(worlds.carry_over(NORMAL, 0.6)),
    "0.6 of the day before, also each one's own": World(worlds.carry_over(NORMAL, 0.6), worlds.carry_over(NORMAL, 0.6)),
    "0.6 of the day before, skewed": World(worlds.carry_over(SKEWED, 0.6), worst=10),
    "spells of 7 days share 0.2": World(worlds.draw_spells(7, 0.2)),
    "spells of 7 days share 0.5": World(worlds.draw_spells(7, 0.5)),
    "spells of 7 days share 0.5, also each one's own": World(worlds.draw_spells(7, 0.5), worlds.draw_spells(7, 0.5)),
    "spells of 14 days share 0.3": World(worlds.draw_spells(14, 0.3)),
    "a wave of 91 days, 0.3 high": World(worlds.draw_seasons(0.3)),
    "a wave of 91 days, 0.6 high": World(worlds.draw_seasons(0.6)),
    **{f"{bad:.0%} bad days, standard deviation 1": rare(bad, unit(bad)) for bad in (0.1, 0.05, 0.01)},
    **{f"{bad:.0%} bad days, each good one gains 1": rare(bad) for bad in (0.1, 0.05, 0.01)},
    **{f"{bad:.0%} bad days, each good one gains 0.5": rare(bad, 0.5) for bad in (0.1, 0.05, 0.01)},
    "5% bad days of 5 times the rows": World(worlds.mix_two_kinds(0.05, 0.5), worst=21 / 5, large=5),
    "1% bad days of 5 times the rows": World(worlds.mix_two_kinds(0.01, 0.5), worst=101 / 5, large=5),
    "the same, `worst_day` 5 times as much": World(worlds.mix_two_kinds(0.01, 0.5), worst=101, large=5),
    "the same users every day, luck of 0.2 (not declared)": World(
        lambda random, shape: NORMAL(random, shape) + 0.2 * random.standard_normal((*shape[:-1], 1))
    ),
}


def lived(count: int, world: World, gain: float, window: int = DAYS) -> Iterator[dict[str, np.ndarray]]:
    """Whether each policy promotes on each night of some years, of `count` in all."""
    for start in range(0, count, 50):
        random, some = np.random.default_rng([SEED, 6, start]), min(50, count - start)
        length = NIGHTS + window - 1
        days, sizes = np.sqrt(0.5) * world.days(random, (some, length)), None
        if world.large:  # so many rows that the sum of all gains stays 0: each costs less
            bad = days < -2
            sizes, days = np.where(bad, world.large, 1.0), np.where(bad, days / world.large, days)
        own = np.sqrt(0.5) * world.own(random, (some, NIGHTS, window))
        own += np.linspace(world.drift, -world.drift, NIGHTS)[:, None]
        shown = np.lib.stride_tricks.sliding_window_view(days, window, axis=1) + own + gain
        yield nightly(shown, np.sqrt(0.5) * world.worst + 3, sizes)


def wrong(count: int, world: World, window: int = DAYS) -> list[str]:
    """The share of years in which each policy promotes a model that is no better."""
    begun = NIGHTS // 2 if world.drift else 0
    found = dict.fromkeys(POLICIES, 0)
    for chunk in lived(count, world, 0.0, window):
        for name, promoted in chunk.items():
            found[name] += int(promoted[:, begun:].any(axis=1).sum())
    return [f"{number / count:.1%}" for number in found.values()]


def halves(count: int) -> None:
    """The tables of both halves: false promotions by world and by window, and the gains that are found."""
    rows = [[name, *wrong(count, world)] for name, world in WORLDS.items()]
    table("Years with a false promotion: both halves beside the test alone, 31 days", ["days", *POLICIES], rows)
    rows = [
        [f"{window} days", name, *wrong(count, WORLDS[name], window)]
        for window in (7, 15, 92)
        for name in ("normal", "0.6 of the day before", "5% bad days, each good one gains 1")
    ]
    table("The same, by the days of the test window", ["window", "days", *POLICIES], rows)
    rows = []
    for gain in (0.1, 0.25, 0.5, 0.75, 1.0, 1.5):
        found = {name: np.zeros(3, np.int64) for name in POLICIES}
        for chunk in lived(count, WORLDS["normal"], gain):
            for name, promoted in chunk.items():
                found[name] += [int(promoted[:, :nights].any(axis=1).sum()) for nights in (30, 90, NIGHTS)]
        rows.append([f"{gain:g}", *(" / ".join(f"{share / count:.0%}" for share in found[name]) for name in POLICIES)])
    table("Years that promote a true gain within 30 / 90 / 365 nights", ["gain", *POLICIES], rows)
