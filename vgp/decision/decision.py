"""The content of `decision.json`, and the terms of a promotion."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import files
from vgp.base.text.figures import format_significant
from vgp.base.text.printable import quote
from vgp.protocol import file_names
from vgp.protocol.manifest import Frozen
from vgp.protocol.outcome import Slice
from vgp.registry import documents as names
from vgp.registry import reigning
from vgp.registry.evidence import Day, Evidence

FILE_NAME = file_names.DECISION
#: Default number of training nights a year, and the most that may be planned: one an hour.
NIGHTS = 365
MOST_NIGHTS = 8_784
INTERVAL_CONFIDENCE = 0.95
#: The model to beat: the champion, or without one the baseline.
Reference = Literal["champion", "baseline"]
#: Who promotes a better model: the run unless a simple model is better; a person; or the run in any case.
Approval = Literal["auto", "manual", "despite_rivals"]
NO_DAYS = "the test rows have no days (set `time`, or `group` to a column of dates)"
#: Relative difference below which losses count as equal: probabilities are float32.
ROUNDING = 1e-6


class CalibrationCheck(Frozen):
    """Root mean square differences of predicted and observed rates, corrected for sampling noise.

    For a regression the rates are those of labels below each predicted quantile.
    """

    challenger: float
    reference: float
    #: Each model's calibration error as the evaluation reports it; None for quantiles.
    challenger_error: float | None = None
    reference_error: float | None = None
    #: Lower confidence bound of the growth of the squared difference.
    squares_lower_bound: float
    worse: bool


class SliceCheck(Slice):
    """The test of one slice: how much higher the challenger's loss is.

    In nats per row, bits per unit, or the unit of a regression's loss.
    """

    loss_increase: float
    #: P-value adjusted for the number of slices; None if the slice has too few rows, or too few of a class, to test.
    p_value: float | None
    worse: bool


class RivalCheck(Frozen):
    """The comparison of the challenger with a simple model that is not the model to beat."""

    model: Literal["baseline", "boosting"]
    #: The rival's loss.
    value: float
    #: Challenger's loss less the rival's, with bounds at the decision's confidence.
    difference: float
    lower_bound: float
    upper_bound: float

    @property
    def better(self) -> bool:
        """Whether the rival is significantly better."""
        return self.lower_bound > 0

    @property
    def tied(self) -> bool:
        """Whether neither model is significantly better."""
        return self.lower_bound <= 0 <= self.upper_bound


class ConstantCheck(Frozen):
    """The comparison of the challenger with a constant prediction from the train labels."""

    #: The constant: `the mean`, `the median`, `the quantiles` or `the class frequencies`.
    what: str
    metric: Literal["loss", "pinball", "squared", "absolute"]
    #: Unit of the loss; "" for nats.
    unit: str
    challenger: float
    constant: float

    @property
    def better(self) -> bool:
        """Whether the constant is better than the challenger."""
        return self.challenger > self.constant + ROUNDING * abs(self.constant)


class EvidenceCheck(Frozen):
    """Tonight's part of the evidence of all nights; see `vgp.registry.evidence`."""

    #: The days of the test rows, with the challenger's gain less the margin.
    days: tuple[Day, ...]
    #: Number of these days that no earlier night has taken.
    new_days: int
    #: The evidence after tonight, and the evidence that promotes.
    total: float
    needed: float
    #: Whether tonight's challenger is ahead on tonight's rows (Student's t, one-sided 20 %).
    ahead: bool
    #: Highest cost of one day, on average over its rows; 0 = not stated.
    worst_day: float = 0.0
    #: Smallest unit of a bet: the rounding error of the loss.
    least: float = 0.0
    #: Whether it has all of the error: with `worst_day`, or if the test rows are too few for tonight's test.
    alone: bool = False

    @property
    def passes(self) -> bool:
        """Whether the evidence promotes tonight's challenger."""
        return self.ahead and self.total >= self.needed


class Decision(Frozen):
    """The content of `decision.json`."""

    promote: bool
    #: Whether it beats the model to beat but waits for a person, because a simple model or a constant is better.
    candidate: bool = False
    #: Who promotes a better model.
    approve: Approval = "auto"
    #: False if there were no predictions to decide by.
    decided: bool = True
    #: The verdict and why, for people: which model is better, by which figures, and what follows.
    reason: str
    #: The statistics behind the reason, in sentences; "" where nothing was tested.
    details: str = ""
    #: The model to beat; None without champion and baseline.
    reference: Reference | None = None
    #: Name of the baseline; "" for a logistic or linear regression.
    baseline: str = ""
    #: Why the champion was not scored; "" if it was, or without a champion. With `reference` = champion it is kept;
    #: with baseline its files are gone.
    champion_problem: str = ""
    #: Whether the challenger has the champion's weights.
    same: bool = False
    #: The compared loss; None if nothing could be compared.
    metric: Literal["loss", "bits", "pinball", "squared", "absolute"] | None = None
    #: Unit that bits are counted per, such as `byte`, or unit of a regression's loss, such as `minutes`.
    unit: str = ""
    challenger_value: float | None = None
    reference_value: float | None = None
    #: Reference loss less challenger loss; positive means that the challenger is better.
    difference: float | None = None
    #: Plain interval of the difference for readers, at `INTERVAL_CONFIDENCE`.
    interval: tuple[float, float] | None = None
    #: One-sided bounds at `level`; the lower one decides. None without a test, or if the data is too skewed.
    lower_bound: float | None = None
    upper_bound: float | None = None
    margin: float
    #: Probability that no decision of a year promotes a model by luck.
    confidence: float
    #: Decisions that share the error 1 - confidence: those planned for a year, or 1 if no champion is replaced.
    nights: int = NIGHTS
    #: One-sided level of the test; None without a test.
    level: float | None = None
    #: Degrees of freedom of the test.
    degrees: float | None = None
    #: Correlation assumed between neighbouring groups; None if the groups have no order in time.
    alike: float | None = None
    #: True difference that these rows detect with 80 % probability, in the unit of `difference`.
    detectable: float | None = None
    rows: int
    #: Column whose equal values mark dependent rows, or two as `day and user`; "" if rows are independent.
    group: str = ""
    #: Whether the task names no group, so that the day of the rows' time is used.
    group_assumed: bool = False
    #: Number of groups (the smaller one of two groupings), or of rows without a grouping.
    groups: int
    #: Number of groups of each grouping column; () if rows are independent.
    clusters: tuple[int, ...] = ()
    calibration: CalibrationCheck | None = None
    slices: tuple[SliceCheck, ...] = ()
    #: The evidence of all nights; None if only tonight's test decides.
    evidence: EvidenceCheck | None = None
    #: Why no evidence is collected, as a clause; "" if it is, or without a registry's champion.
    no_evidence: str = ""
    #: Comparisons with simple models other than the model to beat.
    rivals: tuple[RivalCheck, ...] = ()
    #: Comparisons with constants; () if the train labels are unknown.
    constants: tuple[ConstantCheck, ...] = ()

    @property
    def spends(self) -> float | None:
        """Returns the part of the year's error that the decision spends if it could replace a champion.

        With evidence it is the share of both halves; 0 if the evidence decides alone, which holds for any number of
        nights.
        """
        if not (self.reference == "champion" or self.champion_problem):
            return None
        return 2 * (self.level or 0.0) if self.evidence else self.level

    @property
    def outcome(self) -> Literal["promote", "candidate", "keep", "not decided"]:
        """Returns the decision as a value that workflows branch on."""
        if not self.decided:
            return "not decided"
        return "promote" if self.promote else "candidate" if self.candidate else "keep"

    @property
    def best_rival(self) -> RivalCheck | None:
        """Returns the simple model with the lowest loss, significantly better ones first; None without any."""
        return min(self.rivals, key=lambda rival: (not rival.better, rival.value), default=None)

    @property
    def overrides(self) -> bool:
        """Whether `despite_rivals` promotes it although a simple model is better."""
        return self.promote and self.best_rival is not None and self.best_rival.better

    @property
    def better_constant(self) -> ConstantCheck | None:
        """Returns a constant that is better than the challenger, or None."""
        return next((check for check in self.constants if check.better), None)

    @property
    def better(self) -> bool:
        """Whether the gain is significantly above the margin, by tonight's test or by the evidence of all nights."""
        return self.better_tonight or (self.evidence is not None and self.evidence.passes)

    @property
    def better_tonight(self) -> bool:
        """Whether tonight's test shows a gain above the margin."""
        return self.lower_bound is not None and self.lower_bound > self.margin

    @property
    def worse_slices(self) -> tuple[SliceCheck, ...]:
        return tuple(s for s in self.slices if s.worse)

    @property
    def untested_slices(self) -> tuple[SliceCheck, ...]:
        return tuple(s for s in self.slices if s.p_value is None)

    @property
    def tested_slices(self) -> tuple[SliceCheck, ...]:
        return tuple(s for s in self.slices if s.p_value is not None)


def check(
    margin: float, confidence: float, nights: int = NIGHTS, worst_day: float = 0.0, *, bounded: bool = False
) -> None:
    """Raises UserError for a margin, a confidence, a number of nights or a worst day that is out of range.

    Args:
        bounded: Whether the loss is in nats or bits, so that the margin must lie between -1 and 1.
    """
    if not 0.5 < confidence < 1:
        raise UserError(f"confidence = {confidence}: it must lie between 0.5 and 1, for example 0.95.")
    if not 1 <= nights <= MOST_NIGHTS:
        raise UserError(
            f"nights = {nights}: the number of training nights a year, from 1 to {MOST_NIGHTS:,}, such as 365 or 52."
        )
    if not 0 <= worst_day < math.inf:
        raise UserError(
            f"worst_day = {worst_day}: it must be above 0, in the unit of the loss: what one day may cost at worst, "
            "on average over its rows. 0 = not stated."
        )
    if not math.isfinite(margin):
        raise UserError(f"margin = {margin}: it must be a finite difference in the decision's loss, for example 0.002.")
    if bounded and not -1 < margin < 1:
        raise UserError(f"margin = {margin}: it must lie between -1 and 1 (log loss or bits), for example 0.002.")


def explain_absence(groups: Sequence[str]) -> str:
    """Returns why rows with these grouping columns give no evidence, as a clause; "" if they may."""
    if len(groups) > 1:
        return f"rows of one {groups[1]} return on many days, so luck with them would count as a gain every day again"
    return "" if groups else NO_DAYS


def check_worst_day(worst_day: float, groups: Sequence[str] | None, deviation: float = 0.0) -> None:
    """Raises UserError if `worst_day` is set and the evidence cannot decide, or days differ by more than it.

    Args:
        groups: The grouping columns of the rows; None = known to be days.
        deviation: Standard deviation of the days that were seen, 0 = unknown.
    """
    if worst_day and groups is not None and (why := explain_absence(groups)):
        raise UserError(f"worst_day = {worst_day:g} makes the evidence of all nights decide alone, but {why}.")
    if 0 < worst_day < deviation:
        raise UserError(
            f"worst_day = {worst_day:g} is far below the days that were seen: a day's gain has a standard deviation of "
            f"{format_significant(deviation, 3)}. Set it to what the worst day may cost, on average over its rows, "
            f"such as {format_significant(10 * deviation, 2)}, or leave it at 0."
        )


def save(decision: Decision, directory: str | Path) -> None:
    """Writes `decision.json` atomically."""
    write(decision, Path(directory) / FILE_NAME)


def write(decision: Decision, path: str | Path) -> None:
    """Writes the decision to `path` atomically."""
    files.write(path, json.dumps(decision.model_dump(), indent=1, allow_nan=False) + "\n")


def load(directory: str | Path) -> Decision | None:
    """Returns the decision in an evaluation's directory, or None."""
    path = Path(directory) / FILE_NAME
    return Decision.model_validate_json(files.read(path)) if path.exists() else None


def read(path: str | Path) -> Decision:
    """Returns the decision in the file. Raises UserError if it is missing or unreadable."""
    try:
        return Decision.model_validate_json(files.read(path))
    except FileNotFoundError:
        raise UserError(f"{path} does not exist; the `decide` step writes it.") from None
    except ValueError as error:
        raise UserError(f"{path} is not a valid decision: {error}") from None


# ---- the terms of a promotion, inputs of the steps decide and register


class Terms(Frozen):
    """The terms of a promotion; `read_terms` checks them."""

    #: Value that the lower confidence bound of the gain must exceed.
    margin: float = 0.0
    #: Probability that no decision of a year promotes a model by luck.
    confidence: float = 0.95
    #: Decisions planned for a year.
    nights: int = NIGHTS
    approve: Approval = "auto"
    #: Highest cost of one day, on average over its rows, in the unit of the loss; 0 = not stated.
    worst_day: float = 0.0
    #: The evidence before this night, which the step `resolve` adds; None = none is collected.
    evidence: Evidence | None = None


#: Terms that are parameters of a run.
ASKED = tuple(name for name in Terms.model_fields if name != "evidence")


def read_terms(values: JsonObject) -> Terms:
    """Returns the checked terms. Raises UserError for a value that breaks its rule."""
    check_release("", "", values.get("approve", "auto"))
    try:
        terms = Terms.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{'.'.join(map(str, first['loc']))} = {first['input']!r}: {first['msg']}.") from None
    check(terms.margin, terms.confidence, terms.nights, terms.worst_day)
    return terms


def check_release(champion: str, model_name: str, approve: str) -> None:
    """Raises UserError for an invalid champion, model name or approval."""
    reigning.check(champion)
    names.check_model_name(model_name)
    if approve not in get_args(Approval):
        raise UserError(
            f"approve = {quote(approve)}: choose auto (a better model becomes the champion unless a simple model such "
            "as gradient boosting is better), manual (it waits as a candidate for `vgp models promote`) or "
            "despite_rivals (it becomes the champion even if a simple model is better)."
        )
