"""The decision to promote: a paired test of challenger against champion on the same rows.

Promote if all three hold:

1. Better: the lower confidence bound of the paired difference is above the margin. The difference is in log loss; of a
   regression in the loss that its task names, by default the mean pinball loss of its quantiles; for tasks without
   either in bits per unit of weight. Log loss is a proper score of the probabilities that users act on, and pinball
   loss of quantiles (Gneiting & Raftery 2007, https://doi.org/10.1198/016214506000001437): AUC sees the ranking only,
   and is reported beside it. Groups of rows are resampled, see `comparison`.
2. Calibrated, where there are classes or quantiles: the calibration error, without what sampling noise adds to it, has
   not grown by more than `CALIBRATION_TOLERANCE`, or the growth may be chance. Of quantiles it is how far the share of
   labels below them is off, in bins of rows with similar quantiles: over all rows alone, intervals that are too wide
   here and too narrow there would pass.
3. Fair: no slice has a significantly higher loss (one-sided, robust to groups, Holm over all slices).

A challenger that is the champion, weight for weight, as on a night without new data, is kept whatever the test says.
Without a champion the baseline is the one to beat. Gradient boosting is compared too, and decides nothing: the decision
is whether the new model is better than what there would be without it, and nobody serves the boosting; whether somebody
should is for people, who are told. The first is the claim, so it carries the burden of proof; the
other two are vetoes, which need proof themselves: else a small test set could never pass.

    python -m training.evaluation.decide DIRECTORY     # DIRECTORY/predictions.parquet -> decision.json
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from training import outcome
from training.errors import exits
from training.evaluation import comparison, decision, predictions, quantile_calibration, reason, record
from training.evaluation.comparison import Blocks, Interval
from training.evaluation.decision import CalibrationCheck, Decision, Reference, RivalCheck, SliceCheck
from training.evaluation.predictions import Header, Predictions
from training.evaluation.probabilities import LN_2
from training.evaluation.ranked import Ranked, chosen

__all__ = ["Decision", "decide"]

#: The model to beat, the first that was scored.
RIVALS: tuple[Reference, ...] = ("champion", "baseline")
BOOSTING = "boosting"
#: One percentage point: the chance error of one bin of 2,000 rows is as large (sqrt(.3 * .7 / 2000) = .010), and
#: nobody acts on a rate of 31% otherwise than on one of 30%.
CALIBRATION_TOLERANCE = 0.01
#: Fewer groups than this cannot carry a bootstrap or a robust standard error:
#: Cameron, Gelbach & Miller 2008, https://doi.org/10.1162/rest.90.3.414, find tests far off at 5 and 10.
FEWEST_GROUPS = 10
FEWEST_SLICE_ROWS = 100


def decide(
    evaluation_dir: str | Path, *, margin: float = 0.0, confidence: float = 0.95, nights: int = decision.NIGHTS
) -> Decision:
    """Compares challenger and champion on the saved predictions, writes `decision.json` beside them, returns it.

    Args:
        evaluation_dir: Directory with `predictions.parquet`.
        margin: The lower bound of the improvement must exceed this, in the decision's loss: nats of log loss, bits, or
            the unit of a regression's loss. Below 0, a challenger that is worse by less than that may replace the
            champion.
        confidence: That no model is promoted by luck, over all decisions of a year together; in (0.5, 1).
        nights: Decisions planned for a year: tonight's one-sided level is (1 - confidence) / nights.

    Raises:
        UserError: an argument out of range, or no readable predictions.
    """
    decision.check(margin, confidence, nights)
    if _nothing_scored(evaluation_dir):
        why = reason.undecided(predictions.FILE_NAME)
        result = Decision(
            promote=False,
            decided=False,
            reason=why,
            margin=margin,
            confidence=confidence,
            nights=nights,
            rows=0,
            groups=0,
        )
    else:
        result = _decide(predictions.read(evaluation_dir), margin, confidence, nights)
    decision.save(result, evaluation_dir)
    return result


def _nothing_scored(evaluation_dir: str | Path) -> bool:
    """Whether this is the evaluation of a script that left no predictions."""
    folder = Path(evaluation_dir)
    return (
        not (folder / predictions.FILE_NAME).exists()
        and (folder / record.FILE_NAME).exists()
        and not record.load(folder).scored
    )


def _decide(data: Predictions, margin: float, confidence: float, nights: int) -> Decision:
    decision.check(margin, confidence, nights, bounded=not data.header.quantiles)
    reference = next((model for model in RIVALS if model in data.header.models), None)
    draft = Decision(
        promote=False,
        reason=reason.nothing_to_beat(),
        reference=reference,
        margin=margin,
        confidence=confidence,
        nights=nights,
        rows=len(data),
        group=data.header.group,
        groups=comparison.numbered(data.group.codes)[1] if data.group else len(data),
        baseline=data.header.baseline,
    )
    if not reference:
        return draft
    if data.header.same:
        draft = draft.model_copy(update={"same": True, "reason": reason.same(draft)})
    elif draft.groups < FEWEST_GROUPS:
        draft = draft.model_copy(update={"reason": reason.too_few(draft, FEWEST_GROUPS)})
    if draft.groups < FEWEST_GROUPS:
        return draft
    checked = draft.model_copy(update=_checks(data, reference, confidence))
    if checked.same:
        return checked.model_copy(update={"reason": reason.same(checked)})
    assert checked.lower_bound is not None
    miscalibrated = checked.calibration is not None and checked.calibration.worse
    promote = checked.lower_bound > margin and not miscalibrated and not checked.worse_slices
    decided = checked.model_copy(update={"promote": promote})
    return decided.model_copy(update={"reason": reason.compared(decided)})


def _checks(data: Predictions, reference: Reference, confidence: float) -> dict[str, Any]:
    rows = comparison.blocks(data.group, len(data))
    weights_RG = comparison.resample(rows.count)
    header = data.header
    # A baseline that is named saw the labels: it is calibrated by construction, which no model is.
    comparable = bool(header.classes or header.quantiles) and not (reference == "baseline" and header.baseline)
    losses, our, our_R = _loss(data, "challenger", weights_RG, rows)
    rivals = {}
    for model in dict.fromkeys((reference, *(m for m in [BOOSTING] if m in header.models))):
        theirs, their, their_R = _loss(data, model, weights_RG, rows)
        rivals[model] = their, comparison.interval(their - our, their_R - our_R, rows.count, confidence)
        if model == reference:
            increase, scale = losses - theirs, their
    reference_value, gain = rivals[reference]
    return {
        "metric": header.decided_by if header.quantiles else "loss" if header.classes else "bits",
        "unit": _unit(header),
        "challenger_value": our,
        "reference_value": reference_value,
        "difference": gain.estimate,
        "lower_bound": gain.low,
        "upper_bound": gain.high,
        "slices": _slices(data, increase, scale if header.quantiles else 1.0, confidence),
        "calibration": _calibration(data, reference, weights_RG, rows, confidence) if comparable else None,
        "boosting": _rival(*rivals[BOOSTING]) if BOOSTING in rivals else None,
    }


def _unit(header: Header) -> str:
    """What the loss is counted in or per, in words; "" of nats."""
    if header.quantiles:
        return outcome.loss_unit(header.unit, header.target, header.decided_by)
    return "" if header.classes else header.weight.removesuffix("s") or "row"


def _loss(data: Predictions, model: str, weights_RG: np.ndarray, rows: Blocks) -> tuple[np.ndarray, float, np.ndarray]:
    """A model's loss of each row, float64 (N,), of all rows, and of each replicate, (R,)."""
    header = data.header
    losses = data.losses(model) / (1.0 if header.classes or header.quantiles else LN_2)
    whole = len(data) if data.weight is None else data.weight.sum()
    return losses, float(losses.sum() / whole), comparison.mean_replicates(weights_RG, losses, rows, data.weight)


def _rival(value: float, lead: Interval) -> RivalCheck:
    """`lead` is the challenger's, which the rival's is the other way round."""
    return RivalCheck(value=value, difference=-lead.estimate, lower_bound=-lead.high, upper_bound=-lead.low)


def _calibration(
    data: Predictions, reference: Reference, weights_RG: np.ndarray, rows: Blocks, confidence: float
) -> CalibrationCheck:
    squares, replicates = [], []
    for model in ("challenger", reference):
        plain, plain_R = _miscalibration(data, model, weights_RG, rows)
        square, square_R = comparison.without_noise(plain, plain_R)
        squares.append(square)
        replicates.append(square_R)
    ours, theirs = (max(0.0, square) ** 0.5 for square in squares)
    growth = comparison.interval(squares[0] - squares[1], replicates[0] - replicates[1], rows.count, confidence)
    worse = ours - theirs > CALIBRATION_TOLERANCE and growth.low > 0
    return CalibrationCheck(challenger=ours, reference=theirs, squares_lower_bound=growth.low, worse=worse)


def _miscalibration(data: Predictions, model: str, weights_RG: np.ndarray, rows: Blocks) -> tuple[float, np.ndarray]:
    """Mean squared calibration error of a model, with what sampling noise adds to it, and of each replicate."""
    everything = np.ones((1, rows.count))
    if data.header.quantiles:
        cells = quantile_calibration.cells(data.label, data.predicted(model), data.header.quantiles, rows)
        plain, plain_R = (quantile_calibration.replicates(weights, cells) for weights in (everything, weights_RG))
        return float(plain[0]), plain_R
    packed = data.scored(model).confident
    edges = Ranked.of(packed).bin_edges()
    plain, plain_R = (
        comparison.calibration_replicates(weights, packed, rows, edges) for weights in (everything, weights_RG)
    )
    return float(plain[0]), plain_R


def _slices(data: Predictions, increase: np.ndarray, scale: float, confidence: float) -> tuple[SliceCheck, ...]:
    """`scale`: what a difference is held against to be told from rounding, in its unit."""
    group = data.group.codes if data.group else None
    drafts = [
        _slice(column, value, chosen(increase, rows), _of(group, rows), _of(data.weight, rows), scale or 1.0)
        for column, names in data.slices.items()
        for value, rows in names.rows()
    ]
    adjusted = iter(comparison.holm([draft.p_value for draft in drafts if draft.p_value is not None]))
    return tuple(_adjusted(draft, adjusted, confidence) for draft in drafts)


def _of(values: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if values is None else chosen(values, rows)


def _slice(
    column: str, value: str, increase: np.ndarray, group: np.ndarray | None, weight: np.ndarray | None, scale: float
) -> SliceCheck:
    groups = len(increase) if group is None else comparison.numbered(group)[1]
    enough = len(increase) >= FEWEST_SLICE_ROWS and groups >= FEWEST_GROUPS
    return SliceCheck(
        column=column,
        value=value,
        rows=len(increase),
        loss_increase=float(increase.sum() / (len(increase) if weight is None else weight.sum())),
        p_value=comparison.worse_p_value(increase / scale, group, weight) if enough else None,
        worse=False,
    )


def _adjusted(draft: SliceCheck, adjusted: Iterator[float], confidence: float) -> SliceCheck:
    if draft.p_value is None:
        return draft
    p_value = next(adjusted)
    return draft.model_copy(update={"p_value": p_value, "worse": p_value < 1 - confidence})


if __name__ == "__main__":
    print(exits(decide)(sys.argv[1]).reason)
