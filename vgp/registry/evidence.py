"""The evidence that challengers beat the champion: a product of bets, one on each week of new days.

The product begins at 1. If no challenger is better, it is expected to stay there, so it reaches 40 with a probability
of at most 1/40, however many nights look at it (Ville's inequality; Waudby-Smith & Ramdas 2024,
https://doi.org/10.1093/jrsssb/qkad009). A bet needs a bound on what a week can lose: `REACH` standard deviations of a
week's mean, or what follows from `worst_day`. docs/explanation/the-gate.md has the figures.
"""

import hashlib
import math
import re
import statistics
from collections.abc import Sequence

from pydantic import Field, model_validator

from vgp.protocol.manifest import Frozen

#: Shares of the wealth that are bet; the evidence is the mean of all five wealths.
STAKES = (0.05, 0.15, 0.35, 0.7, 0.95)
#: Days of a bet: neighbouring days resemble each other, weeks less so.
WEEK = 7
#: A week whose mean gain is this many standard deviations below 0 loses the whole stake. For example, one day at -13
#: standard deviations of a day among six days at 0 is such a week.
REACH = 5.0
#: Days before the first bet, which only measure the variance.
FEWEST_DAYS = 10
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


class Day(Frozen):
    """The test rows of one day: champion's loss less challenger's, summed over the rows, and their number or weight."""

    #: A date such as 2013-07-01, or a whole number.
    name: str = Field(pattern=r"^(\d{4}-\d\d-\d\d|-?\d{1,18})$")
    gain: float = Field(allow_inf_nan=False)
    rows: float = Field(gt=0, allow_inf_nan=False)


class Evidence(Frozen):
    """The state of the bets against one champion."""

    #: Number of the champion's version; 0 = none.
    champion: int = Field(default=0, ge=0)
    #: Logarithm of the wealth of each stake.
    wealth: tuple[float, float, float, float, float] = (0.0,) * 5
    #: Evidence that promotes a challenger, as of the last night.
    needed: float = Field(default=40.0, gt=1)
    #: Newest day that was taken; "" = none.
    last_day: str = ""
    #: The open week: number and sum of its gains, and the unit of its bet; a unit of 0 = no week is open.
    week_days: int = Field(default=0, ge=0, lt=WEEK)
    week_gain: float = 0.0
    unit: float = Field(default=0.0, ge=0)
    #: Days against this champion: number, mean gain, and sum of squared deviations.
    days: int = Field(default=0, ge=0)
    mean: float = 0.0
    squares: float = Field(default=0.0, ge=0)
    #: Days against all champions, and their rows.
    all_days: int = Field(default=0, ge=0)
    all_rows: float = Field(default=0.0, ge=0)
    #: Rows of the largest day against any champion; left out of the record until there is one.
    most_rows: float = Field(default=0.0, ge=0, exclude_if=lambda rows: not rows)
    #: Digest of the last night's pins, and the state before that night: the same pins give the same decision.
    pins: str = ""
    before: "Evidence | None" = None
    #: Detects changes by hand.
    checksum: str = ""

    @model_validator(mode="after")
    def _is_unchanged(self) -> "Evidence":
        if self.checksum != self._sum() and (self.checksum or self.last_day or any(self.wealth)):
            raise ValueError("it was changed by hand; without `evidence` in the record it begins again at 1")
        return self

    def _sum(self) -> str:
        return hashlib.sha256(self.model_dump_json(exclude={"checksum"}).encode()).hexdigest()[:16]

    def _with(self, **facts: object) -> "Evidence":
        after = self.model_copy(update=facts)
        return after.model_copy(update={"checksum": after._sum()})

    @property
    def total(self) -> float:
        """Returns the evidence: 1 at the beginning, `needed` or more if it suffices."""
        return sum(map(math.exp, self.wealth)) / len(self.wealth)

    @property
    def deviation(self) -> float:
        """Returns the standard deviation of the days against this champion."""
        return math.sqrt(self.squares / (self.days - 1)) if self.days > 1 else 0.0

    @property
    def words(self) -> str:
        """Returns the evidence as an independent clause."""
        return f"{describe_total(self.total, self.needed)}, at which a challenger that is ahead is promoted"

    def against(self, champion: int | None) -> "Evidence":
        """Returns the evidence against this version: that of another champion is emptied, but for days and sizes."""
        if self.champion == (champion or 0):
            return self
        kept = {name: getattr(self, name) for name in ("last_day", "needed", "all_days", "all_rows", "most_rows")}
        return Evidence()._with(champion=champion or 0, **kept)

    def at(self, pins: str) -> "Evidence":
        """Returns the evidence before the night with these pins, which may be the last one again."""
        return self.before if self.before and pins and self.pins == pins else self

    def after(
        self, days: Sequence[Day], *, needed: float, worst_day: float = 0.0, least: float = 0.0, pins: str = ""
    ) -> "Evidence":
        """Returns the evidence after a night that compared a challenger on these days; unchanged without a new day.

        Days up to `last_day` are never taken, so a repeated night changes nothing. The very first night takes its
        newest day only, and learns from the others.

        Args:
            needed: Evidence that promotes a challenger.
            worst_day: What a day may cost on average over its rows, if it has no more than the largest day so far; 0 =
                not stated.
            least: Smallest unit of a bet, for differences that are rounding errors.
        """
        days = sorted(days, key=lambda day: _place(day.name))
        last = self.last_day or (days[-2].name if len(days) > 1 else "")
        fresh = [day for day in days if _follows(day.name, last)]
        if not fresh:
            return self
        old = len(days) - len(fresh)
        met = [day.rows for day in (fresh if self.all_days else days)]
        size = (
            self.all_rows / self.all_days if self.all_days else statistics.fmean(day.rows for day in days[: old or 1])
        )
        gains, now = [day.gain / size for day in days], self.model_copy()
        for place, gain in enumerate(gains):
            if place >= old:
                if not now.unit and now.days >= FEWEST_DAYS:  # from the days before, and the same for the whole week
                    seen = statistics.stdev(gains[:place]) if place > 1 else 0.0
                    largest = max(size, self.most_rows, *(day.rows for day in days[:place]))
                    worst = worst_day * largest / size / (REACH * math.sqrt(WEEK))
                    now = now.model_copy(update={"unit": max(seen, now.deviation, least, worst)})
                now = now._bet(gain) if now.unit else now
            if place >= old or not self.days:
                now = now._learned(gain)
        return now._with(
            last_day=fresh[-1].name, needed=needed, pins=pins, before=self._with(before=None),
            all_days=self.all_days + len(met), all_rows=self.all_rows + sum(met),
            most_rows=max(self.most_rows, *(day.rows for day in days)),
        )  # fmt: skip

    def _bet(self, gain: float) -> "Evidence":
        """Adds a day to the open week, and settles the bet if the week is full."""
        days, total = self.week_days + 1, self.week_gain + gain
        if days < WEEK:
            return self.model_copy(update={"week_days": days, "week_gain": total})
        x = min(1.0, max(-1.0, total / WEEK / (REACH * self.unit / math.sqrt(WEEK))))
        wealth = tuple(w + math.log1p(stake * x) for w, stake in zip(self.wealth, STAKES, strict=True))
        return self.model_copy(update={"wealth": wealth, "week_days": 0, "week_gain": 0.0, "unit": 0.0})

    def _learned(self, gain: float) -> "Evidence":
        """Adds a day to the moments (Welford 1962, https://doi.org/10.1080/00401706.1962.10490022)."""
        days, away = self.days + 1, gain - self.mean
        mean = self.mean + away / days
        return self.model_copy(update={"days": days, "mean": mean, "squares": self.squares + away * (gain - mean)})


def is_date(name: str) -> bool:
    """Whether the text is a date such as 2013-07-01."""
    return bool(_DATE.fullmatch(name))


def _place(name: str) -> tuple[int, str]:
    return (0, name) if is_date(name) else (int(name), "")


def _follows(name: str, last: str) -> bool:
    """Whether the day comes after the last one; days of another form are all new."""
    return not last or is_date(name) != is_date(last) or _place(name) > _place(last)


def describe_total(total: float, needed: float) -> str:
    """Returns the evidence as `Evidence so far: 12 of 40`, rounded down."""
    digits = 0 if total >= 10 else 1 if total >= 1 else 2
    down = f"{math.floor(total * 10**digits) / 10**digits:,.{digits}f}"
    return f"Evidence so far: {down.removesuffix('.0')} of {needed:.0f}"
