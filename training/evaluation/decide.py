"""The decision to promote: a paired test of challenger against champion on the same rows.

Promote if all three hold:

1. Better: the lower confidence bound of the paired difference is above the margin. The difference is in log loss; for
   tasks without classes in bits per unit of weight. Log loss is a proper score of the probabilities that users act on
   (Gneiting & Raftery 2007, https://doi.org/10.1198/016214506000001437): AUC sees the ranking only, and is reported
   beside it. Groups of rows are resampled, see `comparison`.
2. Calibrated, where there are classes: the calibration error, without what sampling noise adds to it, has not grown
   by more than `CALIBRATION_TOLERANCE`, or the growth may be chance.
3. Fair: no slice has a significantly higher log loss (one-sided, robust to groups, Holm over all slices).

A challenger that is the champion, weight for weight, as on a night without new data, is kept whatever the test says.
Without a champion the baseline is the one to beat. The first is the claim, so it carries the burden of proof; the
other two are vetoes, which need proof themselves: else a small test set could never pass.

    python -m training.evaluation.decide DIRECTORY     # DIRECTORY/predictions.parquet -> decision.json
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from training.errors import exits
from training.evaluation import comparison, decision, predictions, reason, record
from training.evaluation.comparison import Blocks
from training.evaluation.decision import CalibrationCheck, Decision, Reference, SliceCheck
from training.evaluation.predictions import Predictions
from training.evaluation.probabilities import LN_2
from training.evaluation.ranked import Ranked, chosen

__all__ = ["Decision", "decide"]

#: The model to beat, the first that was scored.
RIVALS: tuple[Reference, ...] = ("champion", "baseline")
#: One percentage point: the chance error of one bin of 2,000 rows is as large (sqrt(.3 * .7 / 2000) = .010), and
#: nobody acts on a rate of 31% otherwise than on one of 30%.
CALIBRATION_TOLERANCE = 0.01
#: Fewer groups than this cannot carry a bootstrap or a robust standard error:
#: Cameron, Gelbach & Miller 2008, https://doi.org/10.1162/rest.90.3.414, find tests far off at 5 and 10.
FEWEST_GROUPS = 10
FEWEST_SLICE_ROWS = 100


def decide(evaluation_dir: str | Path, *, margin: float = 0.0, confidence: float = 0.95) -> Decision:
    """Compares challenger and champion on the saved predictions, writes `decision.json` beside them, returns it.

    Args:
        evaluation_dir: Directory with `predictions.parquet`.
        margin: The lower bound of the improvement must exceed this, in nats of log loss or in bits. Below 0, a
            challenger that is worse by less than that may replace the champion.
        confidence: One-sided, of every bound and test; in (0.5, 1).

    Raises:
        UserError: an argument out of range, or no readable predictions.
    """
    decision.check(margin, confidence)
    if _nothing_scored(evaluation_dir):
        why = reason.undecided(predictions.FILE_NAME)
        result = Decision(
            promote=False, decided=False, reason=why, margin=margin, confidence=confidence, rows=0, groups=0
        )
    else:
        result = _decide(predictions.read(evaluation_dir), margin, confidence)
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


def _decide(data: Predictions, margin: float, confidence: float) -> Decision:
    reference = next((model for model in RIVALS if model in data.header.models), None)
    draft = Decision(
        promote=False,
        reason=reason.nothing_to_beat(),
        reference=reference,
        margin=margin,
        confidence=confidence,
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
    """The fields of the decision that need the bootstrap."""
    rows = comparison.blocks(data.group, len(data))
    weights_RG = comparison.resample(rows.count)
    classified = bool(data.header.classes)
    # A baseline that is named saw the labels: it is calibrated by construction, which no model is.
    comparable = classified and not (reference == "baseline" and data.header.baseline)
    increase, (ours, their), (our_R, their_R) = _compared(data, reference, weights_RG, rows)
    gain = comparison.interval(their - ours, their_R - our_R, rows.count, confidence)
    return {
        "metric": "loss" if classified else "bits",
        "unit": "" if classified else data.header.weight.removesuffix("s") or "row",
        "challenger_value": ours,
        "reference_value": their,
        "difference": gain.estimate,
        "lower_bound": gain.low,
        "upper_bound": gain.high,
        "slices": _slices(data, increase, confidence),
        "calibration": _calibration(data, reference, weights_RG, rows, confidence) if comparable else None,
    }


def _compared(
    data: Predictions, reference: Reference, weights_RG: np.ndarray, rows: Blocks
) -> tuple[np.ndarray, list[float], list[np.ndarray]]:
    """By how much each row's loss is higher with the challenger, float64 (N,); both models' loss and its replicates."""
    increase, values, replicates = np.zeros(len(data)), [], []
    whole = len(data) if data.weight is None else data.weight.sum()
    for model, sign in (("challenger", 1.0), (reference, -1.0)):
        losses = data.losses(model) / (1.0 if data.header.classes else LN_2)
        values.append(float(losses.sum() / whole))
        replicates.append(comparison.mean_replicates(weights_RG, losses, rows, data.weight))
        increase += sign * losses
    return increase, values, replicates


def _calibration(
    data: Predictions, reference: Reference, weights_RG: np.ndarray, rows: Blocks, confidence: float
) -> CalibrationCheck:
    everything = np.ones((1, rows.count))
    squares, replicates = [], []
    for model in ("challenger", reference):
        packed = data.scored(model).confident
        edges = Ranked.of(packed).bin_edges()
        plain = float(comparison.calibration_replicates(everything, packed, rows, edges)[0])
        plain_R = comparison.calibration_replicates(weights_RG, packed, rows, edges)
        square, square_R = comparison.without_noise(plain, plain_R)
        squares.append(square)
        replicates.append(square_R)
    ours, theirs = (max(0.0, square) ** 0.5 for square in squares)
    growth = comparison.interval(squares[0] - squares[1], replicates[0] - replicates[1], rows.count, confidence)
    worse = ours - theirs > CALIBRATION_TOLERANCE and growth.low > 0
    return CalibrationCheck(challenger=ours, reference=theirs, squares_lower_bound=growth.low, worse=worse)


def _slices(data: Predictions, increase: np.ndarray, confidence: float) -> tuple[SliceCheck, ...]:
    group = data.group.codes if data.group else None
    drafts = [
        _slice(column, value, chosen(increase, rows), _of(group, rows), _of(data.weight, rows))
        for column, names in data.slices.items()
        for value, rows in names.rows()
    ]
    adjusted = iter(comparison.holm([draft.p_value for draft in drafts if draft.p_value is not None]))
    return tuple(_adjusted(draft, adjusted, confidence) for draft in drafts)


def _of(values: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    return None if values is None else chosen(values, rows)


def _slice(
    column: str, value: str, increase: np.ndarray, group: np.ndarray | None, weight: np.ndarray | None
) -> SliceCheck:
    groups = len(increase) if group is None else comparison.numbered(group)[1]
    enough = len(increase) >= FEWEST_SLICE_ROWS and groups >= FEWEST_GROUPS
    return SliceCheck(
        column=column,
        value=value,
        rows=len(increase),
        loss_increase=float(increase.sum() / (len(increase) if weight is None else weight.sum())),
        p_value=comparison.worse_p_value(increase, group, weight) if enough else None,
        worse=False,
    )


def _adjusted(draft: SliceCheck, adjusted: Iterator[float], confidence: float) -> SliceCheck:
    if draft.p_value is None:
        return draft
    p_value = next(adjusted)
    return draft.model_copy(update={"p_value": p_value, "worse": p_value < 1 - confidence})


if __name__ == "__main__":
    print(exits(decide)(sys.argv[1]).reason)
