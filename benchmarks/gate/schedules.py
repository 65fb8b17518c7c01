"""Years with the registry's own evidence: weekly runs, promotions within a year, days that are missing or large."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from benchmarks.gate import worlds
from benchmarks.gate.gates import CONFIDENCE, DAYS, NIGHTS, SEED, build_corrected_gate, estimate_correlation, table
from benchmarks.gate.process import HALF, NORMAL, POLICIES, SKEWED, WHOLE
from benchmarks.gate.worlds import Draw
from vgp.decision import levels
from vgp.decision.evidence import AHEAD
from vgp.evaluation import clusters
from vgp.registry.evidence import Day, Evidence

#: Draws the rows of each day, float64 (days,); 0 = the day has none.
Sizes = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Schedule:
    """A year of runs: the days that champion and challengers share, their rows, and a gain until it is promoted."""

    days: Draw = NORMAL
    #: Days from one run to the next.
    step: int = 1
    sizes: Sizes = lambda random, count: np.ones(count)
    #: Cost of the worst day, in standard deviations of a day.
    worst: float = 5.0
    #: Gain of every challenger until the first promotion; none is better afterwards.
    gain: float = 0.0

    def draw(self, random: np.random.Generator, count: int) -> np.ndarray:
        """Draws what a new champion adds to the difference of each day, (days,)."""
        return np.sqrt(0.5) * self.days(random, (count,))


def _weekends(random: np.random.Generator, count: int) -> np.ndarray:
    return np.where((np.arange(count) + random.integers(7)) % 7 < 2, 5.0, 1.0)


def count_promotions(schedule: Schedule, policy: str, seed: int) -> tuple[int, int]:
    """Returns the numbers of promotions of better models, and of models that are no better, in one year."""
    random = np.random.default_rng([SEED, 7, seed])
    sizes = schedule.sizes(random, NIGHTS + DAYS - 1)
    shared, gain = schedule.draw(random, len(sizes)), schedule.gain
    evidence, right, wrong = Evidence().against(1), 0, 0
    worst_day = np.sqrt(0.5) * schedule.worst + 3 if policy == "`worst_day`" else 0.0
    for last in range(DAYS - 1, len(sizes), schedule.step):
        window = np.arange(last - DAYS + 1, last + 1)
        own = np.sqrt(0.5) * random.standard_normal(DAYS)
        window, own = window[sizes[window] > 0], own[sizes[window] > 0]
        shown, rows = shared[window] + own + gain, sizes[window]
        moments = clusters.estimate_mean(shown * rows, rows)
        level = levels.tonight(CONFIDENCE, NIGHTS // schedule.step) / (1 if policy == "test alone" else 2)
        needed = WHOLE if worst_day or len(window) < levels.fewest(level) else HALF
        night = [Day(name=str(d), gain=g * r, rows=r) for d, g, r in zip(window.tolist(), shown, rows, strict=True)]
        evidence = evidence.after(night, needed=needed, worst_day=worst_day)
        ahead = moments.estimate > -special.stdtrit(moments.degrees, AHEAD) * np.sqrt(moments.variance)
        proved = policy != "test alone" and ahead and evidence.total >= needed
        test = not worst_day and build_corrected_gate(level, estimate_correlation(shown * rows))(moments)
        if proved or test:
            right, wrong = right + (gain > 0), wrong + (gain <= 0)
            evidence, gain = evidence.against(evidence.champion + 1), 0.0
            shared = np.concatenate([shared[: last + 1], schedule.draw(random, len(sizes))[last + 1 :]])
            shared[window] = -own
    return right, wrong


RARE = worlds.mix_two_kinds(0.05, 0.5)
SCHEDULES: dict[str, Schedule] = {
    "every week (nights = 52)": Schedule(step=7),
    "every week, 0.6 of the day before": Schedule(worlds.carry_over(NORMAL, 0.6), step=7),
    "every week, 5% bad days, each good one gains 0.5": Schedule(
        lambda random, shape: 0.5 * RARE(random, shape), step=7, worst=10.5
    ),
    "every week, a gain of 0.5 until a promotion": Schedule(step=7, gain=0.5),
    "a gain of 1 until a promotion": Schedule(gain=1.0),
    "a gain of 1 until a promotion, 0.6 of the day before": Schedule(worlds.carry_over(NORMAL, 0.6), gain=1.0),
    "a gain of 1 until a promotion, skewed": Schedule(SKEWED, gain=1.0, worst=10),
    "a third of the days has no rows": Schedule(sizes=lambda random, count: (random.random(count) > 1 / 3) * 1.0),
    "no rows for 25 days, twice a year": Schedule(sizes=lambda random, count: (np.arange(count) % 180 < 155) * 1.0),
    "days of lognormal(1) rows": Schedule(sizes=lambda random, count: np.exp(random.standard_normal(count))),
    "weekends of 5 times the rows": Schedule(sizes=_weekends),
}


def schedules(years: int) -> None:
    """Prints the share of years with a promotion of a better model, and of one that is no better, by policy."""
    rows = []
    for name, schedule in SCHEDULES.items():
        cells = []
        for policy in POLICIES:
            counts = np.array([count_promotions(schedule, policy, seed) for seed in range(years)])
            right, wrong = (counts > 0).mean(axis=0)
            cells.append(f"{wrong:.1%}" + (f" (the gain: {right:.0%})" if schedule.gain else ""))
        rows.append([name, *cells])
    table("Years with a false promotion: schedules, promotions within a year, unequal and missing days",
          ["days", *POLICIES], rows)  # fmt: skip
