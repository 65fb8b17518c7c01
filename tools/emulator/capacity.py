"""Capacity over time: for each region, machine and strategy a series of times with and without machines, from a seed.

    world = World(seed=7)
    world.always("us-east4", "*", "standard")                  # never refused
    world.never("us-central1", "a3-*", "spot")                 # always a stockout
    world.set("us-central1", "a3-*", "spot", up=[(0, 900), (3600, 4000)])    # seconds from the beginning of the world
    world.once("us-west1", "a3-*", "spot", lasts_s=900)        # for one job only
    world.habit("spot", up_s=1200, down_s=600)                 # means of the random times without a rule

A Spot job is preempted when its capacity ends; a standard or Flex-start job, or one in a reservation, continues
(https://cloud.google.com/vertex-ai/docs/training/use-spot-vms, .../schedule-jobs-dws).
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain, pairwise

#: Names of CustomJobSpec.Scheduling.Strategy in this package; ON_DEMAND and LOW_COST are older forms.
STRATEGIES = {0: "standard", 1: "standard", 2: "spot", 3: "standard", 4: "spot", 6: "flex_start"}
FOREVER = float("inf")


@dataclass(frozen=True)
class Place:
    """The request of a job, by the machine of its first pool."""

    region: str
    machine: str
    strategy: str


@dataclass
class Series:
    """Alternating times with capacity and without, in seconds since the world began."""

    #: Times of change; `up_first` is the state before the first one.
    changes: list[float]
    up_first: bool
    #: Draws further changes; None for a series with fixed times.
    drawn: Iterator[float] = field(default_factory=lambda: iter(()))

    def reach(self, at: float) -> None:
        while not self.changes or self.changes[-1] <= at:
            following = next(self.drawn, None)
            if following is None:
                return
            self.changes.append(following)

    def up(self, at: float) -> bool:
        self.reach(at)
        return (sum(change <= at for change in self.changes) % 2 == 0) == self.up_first

    def next_change(self, at: float) -> float:
        self.reach(at)
        return next((change for change in self.changes if change > at), FOREVER)


@dataclass
class Once(Series):
    """Capacity until a job has used it for a given time, and then none, for a given time or for ever."""

    lasts_s: float = 0
    gone_s: float = FOREVER

    def next_change(self, at: float) -> float:
        if not self.changes:
            self.changes += [at + self.lasts_s] + [at + self.lasts_s + self.gone_s] * (self.gone_s < FOREVER)
        return super().next_change(at)


@dataclass
class Habit:
    """Means of the times with capacity and without, and the chance that there is some at the beginning."""

    up_s: float
    down_s: float


class World:
    def __init__(self, seed: int = 0):
        self.seed = seed
        self.habits = {
            "standard": Habit(8 * 3600, 1800), "spot": Habit(1800, 900),
            "flex_start": Habit(1800, 3600), "reservation": Habit(FOREVER, 0),
        }  # fmt: skip
        self._series: dict[Place, Series] = {}
        self._rules: list[tuple[Place, Series]] = []

    def habit(self, strategy: str, up_s: float, down_s: float) -> None:
        self.habits[strategy] = Habit(up_s, down_s)

    def always(self, region: str, machine: str, strategy: str) -> None:
        self._rules.append((Place(region, machine, strategy), Series([], True)))

    def never(self, region: str, machine: str, strategy: str) -> None:
        self._rules.append((Place(region, machine, strategy), Series([], False)))

    def once(self, region: str, machine: str, strategy: str, lasts_s: float, gone_s: float = FOREVER) -> None:
        """Sets capacity for one job, which is preempted after `lasts_s`; capacity returns after `gone_s` more."""
        self._rules.append((Place(region, machine, strategy), Once([], True, lasts_s=lasts_s, gone_s=gone_s)))

    def set(self, region: str, machine: str, strategy: str, up: Iterable[tuple[float, float]]) -> None:
        """Sets capacity between these times only; an end may be `FOREVER`."""
        moments = [moment for moment in chain.from_iterable(up) if moment != FOREVER]
        assert all(a < b for a, b in pairwise(moments)), f"moments in order: {moments}"
        self._rules.append((Place(region, machine, strategy), Series(moments, False)))

    def series(self, place: Place) -> Series:
        """Returns the series of the last matching rule, else a random one from the seed."""
        for pattern, series in reversed(self._rules):
            if all(fnmatchcase(getattr(place, name), getattr(pattern, name)) for name in Place.__dataclass_fields__):
                return series
        if place not in self._series:
            self._series[place] = self._draw_series(place)
        return self._series[place]

    def _draw_series(self, place: Place) -> Series:
        habit = self.habits[place.strategy]
        chance = random.Random(f"{self.seed} {place.region} {place.machine} {place.strategy}")
        up_first = habit.up_s == FOREVER or chance.random() < habit.up_s / (habit.up_s + habit.down_s)

        def changes() -> Iterator[float]:
            at, up = 0.0, up_first
            while not (up and habit.up_s == FOREVER):
                at += chance.expovariate(1 / (habit.up_s if up else habit.down_s))
                up = not up
                yield at

        return Series([], up_first, changes())
