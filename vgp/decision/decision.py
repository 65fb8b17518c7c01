"""What was decided, and the figures behind it: the content of `decision.json`, and the terms of a promotion."""

import json
import math
from pathlib import Path
from typing import Literal, get_args

from pydantic import ValidationError

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import files
from vgp.base.text.printable import quoted
from vgp.protocol import file_names
from vgp.protocol.manifest import Frozen
from vgp.protocol.outcome import Slice
from vgp.registry import documents as names
from vgp.registry import reigning

FILE_NAME = file_names.DECISION
#: Trained nights a year, if nobody says otherwise, and the most that may be planned: one an hour.
NIGHTS = 365
MOST_NIGHTS = 8_784
INTERVAL_CONFIDENCE = 0.95
#: The model to beat: without a champion the baseline stands in. The other simple models are compared beside it, and
#: keep a worse model from being promoted.
Reference = Literal["champion", "baseline"]
#: Who decides that a better model is promoted: the run itself where no simple model is better still, a person, or the
#: run whatever simple models do.
Approval = Literal["auto", "manual", "despite_rivals"]
#: By how much of itself a loss may be above another and count as equal: probabilities are float32.
ROUNDING = 1e-6


class CalibrationCheck(Frozen):
    """Root mean square differences of predicted and observed rates, without what sampling noise adds to them.

    Of a regression the rates are quantiles, and how often labels fall below them.
    """

    challenger: float
    reference: float
    #: Each model's calibration error as the evaluation reports it; None for quantiles.
    challenger_error: float | None = None
    reference_error: float | None = None
    #: Lower confidence bound of the growth of the square.
    squares_lower_bound: float
    worse: bool


class SliceCheck(Slice):
    """One slice: how much higher the challenger's loss is, and the chance of that by luck.

    In nats a row; where the metric is bits, in bits per unit; of a regression in the unit of its loss.
    """

    loss_increase: float
    #: Adjusted for the number of slices; None if the slice was too small to test.
    p_value: float | None
    worse: bool


class RivalCheck(Frozen):
    """A simple model that is not the one to beat beside the challenger: whether a network is worth it."""

    model: Literal["baseline", "boosting"]
    #: The rival's loss.
    value: float
    #: By how much it is lower than the challenger's, with bounds at the decision's confidence.
    difference: float
    lower_bound: float
    upper_bound: float

    @property
    def better(self) -> bool:
        """Whether the rival is better beyond chance."""
        return self.lower_bound > 0

    @property
    def tied(self) -> bool:
        """Whether neither is better beyond chance."""
        return self.lower_bound <= 0 <= self.upper_bound


class ConstantCheck(Frozen):
    """What is always predicted, from the train labels alone, beside the challenger."""

    #: In words: `the mean`, `the median`, `the quantiles`, `the class frequencies`.
    what: str
    metric: Literal["loss", "pinball", "squared", "absolute"]
    #: What the loss is counted in; "" of nats.
    unit: str
    challenger: float
    constant: float

    @property
    def better(self) -> bool:
        """Whether the constant is."""
        return self.challenger > self.constant + ROUNDING * abs(self.constant)


class Decision(Frozen):
    """What `decision.json` holds."""

    promote: bool
    #: Whether it is better than the model to beat and waits for a person all the same: a simpler model is better still.
    candidate: bool = False
    #: The owner's word on who decides.
    approve: Approval = "auto"
    #: Whether there was anything to decide by: a script may leave no predictions.
    decided: bool = True
    #: The verdict and why, for people: which model is better, by which figures, and what follows.
    reason: str
    #: The statistics behind the reason, in sentences; "" where nothing was tested.
    details: str = ""
    #: None if there was neither champion nor baseline.
    reference: Reference | None = None
    #: What the baseline is, if it is no logistic regression.
    baseline: str = ""
    #: Why there was no comparison with the champion that there is or was; "" where there is none, or it was compared.
    #: The reference tells which: `champion` is kept, and `baseline` stands in for one whose files are gone.
    champion_problem: str = ""
    #: Whether the challenger is the champion, weight for weight: then there is nothing to decide.
    same: bool = False
    #: What was compared; None if nothing could be.
    metric: Literal["loss", "bits", "pinball", "squared", "absolute"] | None = None
    #: What bits are counted per, such as `byte`; what the loss of a regression is counted in, such as `minutes`.
    unit: str = ""
    challenger_value: float | None = None
    reference_value: float | None = None
    #: Challenger minus reference, above 0 = better (the loss is turned round).
    difference: float | None = None
    #: Of that difference, for readers: an ordinary interval of one comparison at `INTERVAL_CONFIDENCE`.
    interval: tuple[float, float] | None = None
    #: One-sided bounds at `level`: the lower one decides. None if nothing was tested, or too skewed for any bound.
    lower_bound: float | None = None
    upper_bound: float | None = None
    margin: float
    #: That no model is promoted by luck, over all decisions of a year together.
    confidence: float
    #: Decisions that share what `confidence` leaves: those planned for a year, and 1 where no champion is replaced.
    nights: int = NIGHTS
    #: The one-sided level of this night's test; None if nothing was tested.
    level: float | None = None
    #: Degrees of freedom of the test.
    degrees: float | None = None
    #: The correlation that groups which follow each other in time were taken to have; None where they tell no time.
    alike: float | None = None
    #: The difference that these rows would have shown with a probability of 80 %, in the unit of `difference`.
    detectable: float | None = None
    rows: int
    #: The column that marks rows that are not independent, or two as `day and user`; "" if all rows are.
    group: str = ""
    #: Whether the task names no group, and rows were taken for dependent by the day of their time.
    group_assumed: bool = False
    #: Groups of rows, the fewer ones of two; the rows themselves if there is no such column.
    groups: int
    #: Groups by each grouping column; () if rows are independent.
    clusters: tuple[int, ...] = ()
    calibration: CalibrationCheck | None = None
    slices: tuple[SliceCheck, ...] = ()
    #: Simple models beside the model to beat, as far as scored; () if nothing could be compared.
    rivals: tuple[RivalCheck, ...] = ()
    #: What a model has to be better than on every night; () where the train labels are not known.
    constants: tuple[ConstantCheck, ...] = ()

    @property
    def spends(self) -> float | None:
        """What of a year's error the decision takes: its level if it was a test that could replace a champion."""
        return self.level if self.reference == "champion" or self.champion_problem else None

    @property
    def outcome(self) -> Literal["promote", "candidate", "keep", "not decided"]:
        """The decision for a workflow that branches on it."""
        if not self.decided:
            return "not decided"
        return "promote" if self.promote else "candidate" if self.candidate else "keep"

    @property
    def best_rival(self) -> RivalCheck | None:
        """The simple model with the lowest loss, one that is better beyond chance before others; None without any."""
        return min(self.rivals, key=lambda rival: (not rival.better, rival.value), default=None)

    @property
    def overrides(self) -> bool:
        """Whether it promotes by its owner's word, where a simple model is better."""
        return self.promote and self.best_rival is not None and self.best_rival.better

    @property
    def better_constant(self) -> ConstantCheck | None:
        """A constant that is better than the challenger; None if none is."""
        return next((check for check in self.constants if check.better), None)

    @property
    def better(self) -> bool:
        """Whether the gain is above the margin, beyond chance."""
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


def check(margin: float, confidence: float, nights: int = NIGHTS, *, bounded: bool = False) -> None:
    """Raises UserError for a margin, a confidence or nights out of range, whichever parameter of a run they came from.

    Args:
        bounded: Whether the loss is known to be in nats or bits, where a margin of 1 could be no gain.
    """
    if not 0.5 < confidence < 1:
        raise UserError(f"confidence = {confidence}: it lies between 0.5 and 1, such as 0.95.")
    if not 1 <= nights <= MOST_NIGHTS:
        raise UserError(
            f"nights = {nights}: how many trained nights a year are planned, 1 to {MOST_NIGHTS:,}, such as 365 or 52."
        )
    if not math.isfinite(margin):
        raise UserError(f"margin = {margin}: it is a difference in the decision's loss, such as 0.002.")
    if bounded and not -1 < margin < 1:
        raise UserError(f"margin = {margin}: it is a difference in log loss or bits, between -1 and 1, such as 0.002.")


def save(decision: Decision, directory: str | Path) -> None:
    """Writes `decision.json` atomically."""
    write(decision, Path(directory) / FILE_NAME)


def write(decision: Decision, path: str | Path) -> None:
    """Writes the decision to a file of its own, atomically."""
    files.write(path, json.dumps(decision.model_dump(), indent=1, allow_nan=False) + "\n")


def load(directory: str | Path) -> Decision | None:
    """The decision in an evaluation's directory; None if there is none yet."""
    path = Path(directory) / FILE_NAME
    return Decision.model_validate_json(files.read(path)) if path.exists() else None


def read(path: str | Path) -> Decision:
    """The decision in a file of its own. Raises UserError if there is none."""
    try:
        return Decision.model_validate_json(files.read(path))
    except FileNotFoundError:
        raise UserError(f"{path} is not there: the step decide writes it.") from None
    except ValueError as error:
        raise UserError(f"{path} cannot be read as a decision: {error}") from None


# ---- the terms of a promotion, which the steps decide and register receive


class Terms(Frozen):
    """The terms of a promotion; `read_terms` checks them."""

    #: What the lower confidence bound of the gain must exceed.
    margin: float = 0.0
    #: That no model is promoted by luck, over all decisions of a year together.
    confidence: float = 0.95
    #: Decisions planned for a year.
    nights: int = NIGHTS
    approve: Approval = "auto"


def read_terms(values: JsonObject) -> Terms:
    """Returns the terms that the values state. Raises UserError for a value that breaks its rule."""
    check_release("", "", values.get("approve", "auto"))
    try:
        terms = Terms.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{'.'.join(map(str, first['loc']))} = {first['input']!r}: {first['msg']}.") from None
    check(terms.margin, terms.confidence, terms.nights)
    return terms


def check_release(champion: str, model_name: str, approve: str) -> None:
    """Raises UserError for a champion, a name or an approval that cannot be."""
    reigning.check(champion)
    names.check(model_name)
    if approve not in get_args(Approval):
        raise UserError(
            f"approve = {quoted(approve)}: auto, where a model that is better becomes the champion at once, unless a "
            "simple model such as gradient boosting is better still; manual, where it waits as a candidate for "
            "vgp models promote; or despite_rivals, where it becomes the champion whatever simple models do."
        )
