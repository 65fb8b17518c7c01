"""The supply of machines over time: seeded synthetic traces, and public ones from a folder.

A synthetic trace is an alternating renewal process of times with and without machines. Six kinds are equally likely:
exponential; Pareto outages (shape 1.5: most outages are short, most time is in long ones); both log-normal (sigma 1.5);
and each of these three with working days, in which outages last twice as long and machines half as long as at night.
The share of time with machines is uniform from 0.1 to 0.95, and the mean time with machines log-uniform from 0.5 to 12
hours. Zones of a region share a third of their outages.
"""

import json
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HOUR = 3600.0
DAY = 24 * HOUR
KINDS = ("exponential", "pareto", "log-normal")


@dataclass(frozen=True)
class Supply:
    """The times at which machines appear and disappear."""

    changes: Sequence[float]
    first: bool

    def at(self, time_s: float) -> bool:
        return self.first ^ bool(bisect_right(self.changes, time_s) % 2)

    def next_change(self, time_s: float) -> float:
        place = bisect_right(self.changes, time_s)
        return self.changes[place] if place < len(self.changes) else math.inf

    def share(self, until_s: float) -> float:
        """Returns the share of time with machines."""
        edges = np.array([0.0, *(each for each in self.changes if each < until_s), until_s])
        spans = np.diff(edges)
        return float(spans[0 if self.first else 1 :: 2].sum() / until_s)


ALWAYS = Supply((), True)


def from_points(points: Sequence[bool], gap_s: float) -> Supply:
    """Returns the supply of a series of samples, `gap_s` apart; the last state stays."""
    changes = [place * gap_s for place in range(1, len(points)) if points[place] != points[place - 1]]
    return Supply(tuple(changes), bool(points[0]))


def intersect(one: Supply, other: Supply) -> Supply:
    """Returns a supply with machines when both supplies have them."""
    times = sorted({*one.changes, *other.changes})
    states = [one.first and other.first, *(one.at(each) and other.at(each) for each in times)]
    changes = [time for time, before, after in zip(times, states, states[1:], strict=False) if before != after]
    return Supply(tuple(changes), states[0])


def draw_supplies(seed: int, zones: int, until_s: float) -> list[Supply]:
    """Returns synthetic zones of one region, from a seed."""
    random = np.random.default_rng([20261122, seed])
    kind, daily = KINDS[seed % 3], bool(seed // 3 % 2)
    share, stay_s = random.uniform(0.1, 0.95), HOUR * float(np.exp(random.uniform(np.log(0.5), np.log(12))))
    if zones == 1:
        return [_renewal(random, kind, daily, share, stay_s, until_s)]
    region = _renewal(random, kind, daily, 1 - (1 - share) / 3, 4 * stay_s, until_s)
    own = share / (1 - (1 - share) / 3)
    return [intersect(region, _renewal(random, kind, daily, own, stay_s, until_s)) for _ in range(zones)]


def _renewal(
    random: np.random.Generator, kind: str, daily: bool, share: float, stay_s: float, until_s: float
) -> Supply:
    gone_s = stay_s * (1 - share) / share
    there = first = bool(random.random() < share)
    time, changes = -random.exponential(stay_s + gone_s), list[float]()
    while time < until_s:
        mean = stay_s if there else gone_s
        if daily and math.sin(2 * math.pi * time / DAY) > 0:
            mean *= 0.5 if there else 2.0
        time += max(_length(random, kind, there) * mean, 30.0)
        if time > 0:
            changes.append(time)
        else:
            first = not first
        there = not there
    return Supply(tuple(changes), first)


def _length(random: np.random.Generator, kind: str, there: bool) -> float:
    """Returns a random length with mean 1."""
    if kind == "log-normal":
        return float(random.lognormal(-(1.5**2) / 2, 1.5))
    if kind == "pareto" and not there:
        return float((1 + random.pareto(1.5)) / 3)
    return float(random.exponential())


def read(folder: Path) -> Iterator[tuple[str, list[bool], float]]:
    """Yields name, samples and gap in seconds of each public trace, which counts only full sets of machines."""
    for path in sorted(folder.rglob("*.json")):
        document = json.loads(path.read_text(encoding="utf-8"))
        points, most = document["data"], max(document["data"])
        if most:
            name = f"{path.parent.parent.name} {path.stem}"
            yield name, [each >= most for each in points], float(document["metadata"]["gap_seconds"])


def cut_windows(points: Sequence[bool], gap_s: float, count: int, until_s: float) -> Iterator[Supply]:
    """Returns supplies that begin at `count` places of a series, which repeats if it is too short."""
    needed = math.ceil(until_s / gap_s) + 1
    for place in range(count):
        start = place * len(points) // count
        yield from_points([points[(start + step) % len(points)] for step in range(needed)], gap_s)
