"""Where there are machines, and when: for each region, machine and strategy a series of times, made from a seed.

    world = World(seed=7)
    world.always("us-east4", "*", "standard")                  # never refused
    world.never("us-central1", "a3-*", "spot")                 # a stockout, whenever one asks
    world.set("us-central1", "a3-*", "spot", up=[(0, 900), (3600, 4000)])    # seconds from the beginning of the world
    world.once("us-west1", "a3-*", "spot", lasts_s=900)        # for one job, and never again
    world.habit("spot", up_s=1200, down_s=600)                 # what is not said is drawn: means of exponential times

A Spot job that began while there was capacity is preempted when that ends; what began as standard, Flex-start or in a
reservation goes on (https://cloud.google.com/vertex-ai/docs/training/use-spot-vms, .../schedule-jobs-dws).
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain, pairwise

#: Names of CustomJobSpec.Scheduling.Strategy, as this package has them; ON_DEMAND and LOW_COST are older forms.
STRATEGIES = {0: "standard", 1: "standard", 2: "spot", 3: "standard", 4: "spot", 6: "flex_start"}
FOREVER = float("inf")


@dataclass(frozen=True)
class Place:
    """What a job asks for: the machine of its first pool stands for all."""

    region: str
    machine: str
    strategy: str


@dataclass
class Series:
    """Alternating times with capacity and without, in seconds since the world began."""

    #: Moments of change; before the first there is capacity or not.
    changes: list[float]
    up_first: bool
    #: Draws further changes; nothing for a series that somebody wrote.
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
    """Capacity until somebody has had it for a while, and then none, for a while or from then on."""

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
        """Capacity for one job, which is preempted after so long, and again when so long has passed."""
        self._rules.append((Place(region, machine, strategy), Once([], True, lasts_s=lasts_s, gone_s=gone_s)))

    def set(self, region: str, machine: str, strategy: str, up: Iterable[tuple[float, float]]) -> None:
        """Capacity between these moments only; an end may be `FOREVER`."""
        moments = [moment for moment in chain.from_iterable(up) if moment != FOREVER]
        assert all(a < b for a, b in pairwise(moments)), f"moments in order: {moments}"
        self._rules.append((Place(region, machine, strategy), Series(moments, False)))

    def series(self, place: Place) -> Series:
        """The last rule that fits, else what the seed gives."""
        for pattern, series in reversed(self._rules):
            if all(fnmatchcase(getattr(place, name), getattr(pattern, name)) for name in Place.__dataclass_fields__):
                return series
        if place not in self._series:
            self._series[place] = self._drawn(place)
        return self._series[place]

    def _drawn(self, place: Place) -> Series:
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
