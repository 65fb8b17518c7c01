"""The settings of the workflow `training` that decide when a run trains, checked."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, cast, get_args

from vgp.base.exits import UserError
from vgp.data.periods import Length, date_of, parse

When = Literal["drift", "new data", "always", "never"]


@dataclass(frozen=True)
class Policy:
    """The settings of the decision to retrain, created by `check_policy`."""

    when: When = "always"
    #: Longest time between two trainings if data is new, and the shortest one; None = no limit.
    retrain_every: Length | None = None
    wait: Length | None = None
    force: bool = False
    #: Number of newest days to sample.
    look_days: int = 28
    #: Population stability index at which a column counts as drifted.
    drift_threshold: float = 0.25
    #: Relative rise of the champion's loss that counts as worse.
    loss_rise: float = 0.1
    #: Probability of no false alarm, over all columns and the loss, when nothing has changed.
    look_confidence: float = 0.99

    @property
    def level(self) -> float:
        return 1 - self.look_confidence

    @property
    def looks(self) -> bool:
        return self.when in ("drift", "never")


def check_policy(
    *,
    when: str = "always",
    retrain_every: str = "30 days",
    wait: str = "7 days",
    force: bool = False,
    look_days: int = 28,
    drift_threshold: float = 0.25,
    loss_rise: float = 0.1,
    look_confidence: float = 0.99,
) -> Policy:
    """Returns the policy of the workflow's settings. Raises UserError for a value that breaks its rule."""
    if when not in get_args(When):
        raise UserError(f"when = {when!r} is none of: {', '.join(get_args(When))}.")
    for name, holds, rule in (
        ("look_days", 1 <= look_days <= 3650, "1 to 3650 days"),
        (
            "drift_threshold",
            0 <= drift_threshold < 100,
            "0 or more, below 100: 0.1 is a moderate shift, 0.25 a large one",
        ),
        ("loss_rise", 0 <= loss_rise < 100, "0 or more, such as 0.1 for a tenth"),
        ("look_confidence", 0.5 < look_confidence < 1, "above 0.5 and below 1, such as 0.99"),
    ):
        if not holds:
            raise UserError(f"{name} = {locals()[name]:g}: it must be {rule}.")
    every, least = _parse_length("retrain_every", retrain_every), _parse_length("wait", wait)
    if every and least and least.after(0) > every.after(0):
        raise UserError(f"wait = {wait} is longer than retrain_every = {retrain_every}, so the second would not count.")
    return Policy(cast(When, when), every, least, force, look_days, drift_threshold, loss_rise, look_confidence)


def _parse_length(name: str, text: str) -> Length | None:
    if not text.strip():
        return None
    try:
        length = parse(text, name).length
    except UserError:
        length = None
    if length is None:
        raise UserError(f"{name} = {text!r}: give a time, such as 30 days, 4 weeks or 2 months, or nothing for none.")
    return length


def over(length: Length, since: datetime, now: datetime) -> bool:
    """Whether the interval has passed since `then`, in whole UTC days."""
    return length.after(_to_day(since)) <= _to_day(now)


def until(length: Length, since: datetime) -> str:
    """Returns the day on which the interval will have passed."""
    return date_of(length.after(_to_day(since))).isoformat()


def format_length(length: Length) -> str:
    return f"{length.count} {length.unit}{'s' * (length.count != 1)}"


def _to_day(moment: datetime) -> int:
    return int(moment.timestamp()) // 86_400
