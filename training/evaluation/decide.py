"""The decision to promote: a paired test of challenger against champion on the same rows, one of a year's.

Promote if all three hold:

1. Better: the lower confidence bound of the paired difference is above the margin. The difference is in log loss; of a
   regression in the loss that its task names, by default the mean pinball loss of its quantiles; for tasks without
   either in bits per unit of weight. Log loss is a proper score of the probabilities that users act on, and pinball
   loss of quantiles (Gneiting & Raftery 2007, https://doi.org/10.1198/016214506000001437): AUC sees the ranking only,
   and is reported beside it. The bound is that of a t test over clusters of rows (`clusters`) at a level which all
   decisions of a year share (`levels`).
2. Calibrated, where there are classes or quantiles: the calibration error, without what sampling noise adds to it, has
   not grown by more than `CALIBRATION_TOLERANCE`, or the growth may be chance. Of quantiles it is how far the share of
   labels below them is off, in bins of rows with similar quantiles: over all rows alone, intervals that are too wide
   here and too narrow there would pass.
3. Fair: no slice has a significantly higher loss (one-sided, robust to groups, Holm over all slices).

A challenger that is the champion, weight for weight, as on a night without new data, is kept whatever the test says.
Without a champion the baseline is the one to beat, as where the champion's files are gone; a champion that is there
and cannot be compared is kept. Gradient boosting is compared too, and decides nothing: the decision is whether the new
model is better than what there would be without it, and nobody serves the boosting; whether somebody should is for
people, who are told. The first is the claim, so it carries the burden of proof and the year's level; the other two are
vetoes, which need proof themselves, at the confidence of one night: else a small test set could never pass. A veto
only ever keeps, so that a false one costs a night and none of the year's error.

    python -m training.evaluation.decide DIRECTORY     # DIRECTORY/predictions.parquet -> decision.json
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from training import outcome
from training.errors import exits
from training.evaluation import (
    clusters,
    comparison,
    consecutive,
    decision,
    levels,
    predictions,
    quantile_calibration,
    reason,
    record,
)
from training.evaluation.clusters import Contrast
from training.evaluation.comparison import Blocks
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
        nights: Decisions planned for a year: tonight's one-sided level is (1 - confidence) / nights, and 1 - confidence
            as long as there is no champion that could be replaced.

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
    header = data.header
    reference = next((model for model in RIVALS if model in header.models), None)
    nights = nights if _replaces(header, reference) else 1
    draft = Decision(
        promote=False,
        reason=reason.nothing_to_beat(),
        reference=reference,
        champion_problem=header.champion_problem,
        margin=margin,
        confidence=confidence,
        nights=nights,
        rows=len(data),
        group=" and ".join(filter(None, (header.group, header.second_group))),
        groups=len(data),
        baseline=header.baseline,
    )
    if header.champion_problem and not header.champion_gone:
        draft = draft.model_copy(update={"reference": "champion"})
        return draft.model_copy(update={"reason": reason.incomparable(draft)})
    if not reference:
        return draft
    compared = _compared(data, reference)
    level = levels.tonight(confidence, nights)
    counts = compared.gain.clusters
    draft = draft.model_copy(update={"groups": min(counts), "clusters": counts if header.group else ()})
    if header.same:
        draft = draft.model_copy(update={"same": True})
    elif not levels.enough(level, compared.gain):
        return draft.model_copy(update={"reason": reason.too_few(draft, levels.fewest(level), compared.gain.degrees)})
    if draft.groups < levels.FEWEST_CLUSTERS:
        return draft.model_copy(update={"reason": reason.same(draft)})
    checked = draft.model_copy(update=_checks(data, reference, compared, draft))
    if checked.same:
        return checked.model_copy(update={"reason": reason.same(checked)})
    checked = checked.model_copy(update=_tested(compared.gain, level, margin, levels.CAUTION if nights > 1 else 0.0))
    vetoed = bool(checked.worse_slices) or (checked.calibration is not None and checked.calibration.worse)
    decided = checked.model_copy(update={"promote": checked.better and not vetoed})
    return decided.model_copy(update={"reason": reason.compared(decided)})


def _replaces(header: Header, reference: Reference | None) -> bool:
    """Whether a champion would be replaced: such decisions share a year's error.

    The first model replaces none. It is held to the baseline as in one single decision: on a year's level a table with
    a month of test days would never get a champion, and so nothing that later nights could improve on.
    """
    return reference == "champion" or bool(header.champion_problem)


@dataclass(frozen=True)
class Compared:
    """Challenger and the model to beat: their losses, and by how much the challenger's is lower."""

    ours: float
    theirs: float
    gain: Contrast
    #: By how much the challenger's loss of each row is higher, float64 (N,).
    increase: np.ndarray


def _compared(data: Predictions, model: str) -> Compared:
    ours, theirs = _losses(data, "challenger"), _losses(data, model)
    increase = ours - theirs
    whole = len(data) if data.weight is None else data.weight.sum()
    value = float(theirs.sum() / whole)
    orders = [consecutive.in_order(names) for names in data.groupings]
    gain = clusters.contrast(-increase, _groupings(data), data.weight, scale=abs(value), orders=orders)
    return Compared(float(ours.sum() / whole), value, gain, increase)


def _losses(data: Predictions, model: str) -> np.ndarray:
    """A model's loss of each row, float64 (N,)."""
    return data.losses(model) / (1.0 if data.header.classes or data.header.quantiles else LN_2)


def _groupings(data: Predictions) -> list[np.ndarray]:
    return [names.codes for names in data.groupings]


def _tested(gain: Contrast, level: float, margin: float, caution: float) -> dict[str, Any]:
    alike = levels.alike(gain, caution) if gain.carried is not None else None
    gain = levels.widened(gain, caution)
    low, high, detectable = (
        bound if math.isfinite(bound) else None
        for bound in (
            levels.lower(gain, level),
            levels.upper(gain, level),
            levels.detectable(gain, level, margin),
        )
    )
    return {
        "level": level, "degrees": gain.degrees, "lower_bound": low, "upper_bound": high, "detectable": detectable,
        "alike": alike,
    }  # fmt: skip


def _checks(data: Predictions, reference: Reference, compared: Compared, draft: Decision) -> dict[str, Any]:
    rows = comparison.blocks(data.group, len(data))
    header = data.header
    # A baseline that is named saw the labels: it is calibrated by construction, which no model is.
    comparable = bool(header.classes or header.quantiles) and not (reference == "baseline" and header.baseline)
    return {
        "metric": header.decided_by if header.quantiles else "loss" if header.classes else "bits",
        "unit": _unit(header),
        "challenger_value": compared.ours,
        "reference_value": compared.theirs,
        "difference": compared.gain.estimate,
        "interval": levels.within(levels.widened(compared.gain), (1 + decision.INTERVAL_CONFIDENCE) / 2),
        "slices": _slices(data, compared, draft.confidence),
        "calibration": _calibration(data, reference, rows, draft.confidence) if comparable else None,
        "boosting": _rival(_compared(data, BOOSTING), draft.confidence) if BOOSTING in header.models else None,
    }


def _unit(header: Header) -> str:
    """What the loss is counted in or per, in words; "" of nats."""
    if header.quantiles:
        return outcome.loss_unit(header.unit, header.target, header.decided_by)
    return "" if header.classes else header.weight.removesuffix("s") or "row"


def _rival(compared: Compared, confidence: float) -> RivalCheck:
    """The lead is the challenger's, which the rival's is the other way round."""
    low, high = levels.within(levels.widened(compared.gain), confidence)
    return RivalCheck(value=compared.theirs, difference=-compared.gain.estimate, lower_bound=-high, upper_bound=-low)


def _calibration(data: Predictions, reference: Reference, rows: Blocks, confidence: float) -> CalibrationCheck:
    weights_RG = comparison.resample(rows.count)
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


def _slices(data: Predictions, compared: Compared, confidence: float) -> tuple[SliceCheck, ...]:
    groupings = _groupings(data)
    drafts = [
        _slice(
            column, value, chosen(compared.increase, rows), [chosen(codes, rows) for codes in groupings],
            _of(data.weight, rows), abs(compared.theirs),
        )
        for column, names in data.slices.items()
        for value, rows in names.rows()
    ]  # fmt: skip
    adjusted = iter(comparison.holm([draft.p_value for draft in drafts if draft.p_value is not None]))
    return tuple(_adjusted(draft, adjusted, confidence) for draft in drafts)


def _of(values: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if values is None else chosen(values, rows)


def _slice(
    column: str, value: str, increase: np.ndarray, groupings: list[np.ndarray], weight: np.ndarray | None, scale: float
) -> SliceCheck:
    worse = clusters.contrast(increase, groupings, weight, scale=scale)
    enough = len(increase) >= FEWEST_SLICE_ROWS and min(worse.clusters) >= levels.FEWEST_CLUSTERS
    return SliceCheck(
        column=column,
        value=value,
        rows=len(increase),
        loss_increase=worse.estimate,
        p_value=levels.above(worse) if enough else None,
        worse=False,
    )


def _adjusted(draft: SliceCheck, adjusted: Iterator[float], confidence: float) -> SliceCheck:
    if draft.p_value is None:
        return draft
    p_value = next(adjusted)
    return draft.model_copy(update={"p_value": p_value, "worse": p_value < 1 - confidence})


if __name__ == "__main__":
    print(exits(decide)(sys.argv[1]).reason)
