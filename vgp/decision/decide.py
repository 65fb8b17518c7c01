"""The decision to promote: a paired test of challenger against champion on the same rows, one of a year's.

Promote if all three hold:

1. Better: the lower confidence bound of the paired difference is above the margin. The difference is in log loss; of a
   regression in the loss that its task names, by default the mean pinball loss of its quantiles; for tasks without
   either in bits per unit of weight. Log loss is a proper score of the probabilities that users act on, and pinball
   loss of quantiles (Gneiting & Raftery 2007, https://doi.org/10.1198/016214506000001437): AUC sees the ranking only,
   and is reported beside it. The bound is that of a t test over clusters of rows (`clusters`) at a level which all
   decisions of a year share (`levels`).
2. Calibrated, where there are classes or quantiles: the calibration error, without what sampling noise adds to it, has
   not grown by more than the tolerance of `vetoes`, or the growth may be chance. Of quantiles it is how far the share
   of labels below them is off, in bins of rows with similar quantiles: over all rows alone, intervals that are too wide
   here and too narrow there would pass.
3. Fair: no slice has a significantly higher loss (one-sided, robust to groups, Holm over all slices).

A challenger that is the champion, weight for weight, as on a night without new data, is kept whatever the test says.
Without a champion the baseline is the one to beat, as where the champion's files are gone; a champion that is there
and cannot be compared is kept. The first is the claim, so it carries the burden of proof and the year's level; the
other two are vetoes (`vetoes`), which need proof themselves, at the confidence of one night.

A model that passes waits as a candidate all the same where a simple one is better beyond chance, gradient boosting or
the baseline beside a champion, unless its owner said otherwise (`approve`); and where it is worse than a constant, the
mean, the median or the class frequencies of the train labels, whoever said what. So it is on every night. Where no
scored row is of one of the classes nothing is decided: what the models make of it is not known.

    python -m vgp.decision.decide DIRECTORY     # DIRECTORY/predictions.parquet -> decision.json
"""

import math
import sys
from pathlib import Path
from typing import Literal

import numpy as np

from vgp.base.exits import exits
from vgp.decision import decision, levels, reason, vetoes
from vgp.decision.decision import INTERVAL_CONFIDENCE, Approval, Decision, Reference, RivalCheck
from vgp.decision.levels import Compared, compared
from vgp.evaluation import predictions, record
from vgp.evaluation.clusters import Contrast
from vgp.evaluation.predictions import Header, Predictions
from vgp.protocol import outcome

__all__ = ["Decision", "decide"]

#: The model to beat, the first that was scored.
RIVALS: tuple[Reference, ...] = ("champion", "baseline")


def decide(
    evaluation_dir: str | Path, *, margin: float = 0.0, confidence: float = 0.95, nights: int = decision.NIGHTS,
    approve: Approval = "auto",
) -> Decision:  # fmt: skip
    """Compares challenger and champion on the saved predictions, writes `decision.json` beside them, returns it.

    Args:
        evaluation_dir: Directory with `predictions.parquet`.
        margin: The lower bound of the improvement must exceed this, in the decision's loss: nats of log loss, bits, or
            the unit of a regression's loss. Below 0, a challenger that is worse by less than that may replace the
            champion.
        confidence: That no model is promoted by luck, over all decisions of a year together; in (0.5, 1).
        nights: Decisions planned for a year: tonight's one-sided level is (1 - confidence) / nights, and 1 - confidence
            as long as there is no champion that could be replaced.
        approve: Whether a model that a simple one beats waits for a person; `despite_rivals`: it does not.

    Raises:
        UserError: an argument out of range, or no readable predictions.
    """
    decision.check(margin, confidence, nights)
    if _nothing_scored(evaluation_dir):
        result = Decision(
            promote=False, decided=False, reason=predictions.UNDECIDED, rows=0, groups=0,
            margin=margin, confidence=confidence, nights=nights, approve=approve,
        )  # fmt: skip
    else:
        data = predictions.read(evaluation_dir)
        result = _decide(data, margin, confidence, nights, approve)
        if doubts := data.header.doubts:
            result = result.model_copy(update={"reason": f"{result.reason} In doubt: {' '.join(doubts)}"})
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


def _decide(data: Predictions, margin: float, confidence: float, nights: int, approve: Approval) -> Decision:
    decision.check(margin, confidence, nights, bounded=not data.header.quantiles)
    draft = _draft(data, margin, confidence, nights).model_copy(update={"approve": approve})
    if draft.champion_problem and not data.header.champion_gone:
        kept = draft.model_copy(update={"reference": "champion"})
        return kept.model_copy(update={"reason": reason.explain_unscored_champion(kept)})
    if (absent := _absent(data)) and not draft.same:
        return draft.model_copy(update={"decided": False, "reason": reason.explain_missing_classes(draft, absent)})
    return _compared(data, draft, draft.reference) if draft.reference else draft


def _absent(data: Predictions) -> tuple[str, ...]:
    """The classes that no scored row is of."""
    counts = np.bincount(data.label, minlength=len(data.header.classes)) if data.header.classes else ()
    return tuple(name for name, count in zip(data.header.classes, counts, strict=True) if not count)


def _draft(data: Predictions, margin: float, confidence: float, nights: int) -> Decision:
    """What is known before anything is compared."""
    header = data.header
    reference = next((model for model in RIVALS if model in header.models), None)
    return Decision(
        promote=False,
        reason=reason.explain_nothing_to_beat(),
        reference=reference,
        champion_problem=header.champion_problem,
        same=header.same,
        margin=margin,
        confidence=confidence,
        nights=nights if _replaces(header, reference) else 1,
        rows=len(data),
        group=" and ".join(filter(None, (header.group, header.second_group))),
        group_assumed=header.group_assumed,
        groups=len(data),
        baseline=header.baseline,
    )


def _replaces(header: Header, reference: Reference | None) -> bool:
    """Whether a champion would be replaced: such decisions share a year's error.

    The first model replaces none. It is held to the baseline as in one single decision: on a year's level a table with
    a month of test days would never get a champion, and so nothing that later nights could improve on.
    """
    return reference == "champion" or bool(header.champion_problem)


def _compared(data: Predictions, draft: Decision, reference: Reference) -> Decision:
    found = compared(data, reference)
    counts, level = found.gain.clusters, levels.tonight(draft.confidence, draft.nights)
    draft = draft.model_copy(update={"groups": min(counts), "clusters": counts if data.header.group else ()})
    if not draft.same and not levels.enough(level, found.gain):
        why = reason.explain_too_few_groups(draft, levels.fewest(level), found.gain.degrees)
        return draft.model_copy(update={"reason": why})
    if draft.groups >= levels.FEWEST_CLUSTERS:
        draft = draft.model_copy(update=comparison_figures(data, reference, found, draft.confidence))
    if draft.same:
        return draft.model_copy(update={"reason": reason.explain_same_model(draft)})
    draft = draft.model_copy(update=bounds_figures(found.gain, draft))
    vetoed = bool(draft.worse_slices) or (draft.calibration is not None and draft.calibration.worse)
    passes, waits = draft.better and not vetoed, reason.needs_approval(draft)
    decided = draft.model_copy(update={"promote": passes and not waits, "candidate": passes and waits})
    return decided.model_copy(
        update={"reason": reason.explain_comparison(decided), "details": reason.describe_test(decided)}
    )


# ---- what a comparison of two models brings forward: figures for people, and the bounds of tonight's test


#: Simple models, which stand beside the model to beat.
SIMPLE: tuple[Literal["baseline", "boosting"], ...] = ("baseline", "boosting")


def comparison_figures(
    data: Predictions, reference: Reference, found: Compared, confidence: float
) -> dict[str, object]:
    """The fields of a `Decision` that tell what was found, and the vetoes."""
    header = data.header
    # A baseline that is named saw the labels: it is calibrated by construction, which no model is.
    comparable = bool(header.classes or header.quantiles) and not (reference == "baseline" and header.baseline)
    return {
        "metric": header.decided_by if header.quantiles else "loss" if header.classes else "bits",
        "unit": _unit(header),
        "challenger_value": found.ours,
        "reference_value": found.theirs,
        "difference": found.gain.estimate,
        "interval": levels.within(levels.widened(found.gain), (1 + INTERVAL_CONFIDENCE) / 2),
        "slices": vetoes.slices(data, found, confidence),
        "calibration": vetoes.calibration(data, reference, confidence) if comparable else None,
        "rivals": tuple(
            _rival(model, compared(data, model), confidence)
            for model in SIMPLE
            if model in header.models and model != reference
        ),
        "constants": vetoes.constants(data),
    }


def _unit(header: Header) -> str:
    """What the loss is counted in or per, in words; "" of nats."""
    if header.quantiles:
        return outcome.loss_unit(header.unit, header.target, header.decided_by)
    return "" if header.classes else header.weight.removesuffix("s") or "row"


def _rival(model: Literal["baseline", "boosting"], found: Compared, confidence: float) -> RivalCheck:
    """The lead is the challenger's, which the rival's is the other way round."""
    low, high = levels.within(levels.widened(found.gain), confidence)
    return RivalCheck(
        model=model, value=found.theirs, difference=-found.gain.estimate, lower_bound=-high, upper_bound=-low
    )


def bounds_figures(gain: Contrast, draft: Decision) -> dict[str, object]:
    """The fields of a `Decision` that tell of its test. A decision that shares a year's error takes neighbouring groups
    to be more alike than they look."""
    level, caution = levels.tonight(draft.confidence, draft.nights), levels.CAUTION if draft.nights > 1 else 0.0
    wide = levels.widened(gain, caution)
    return {
        "level": level,
        "degrees": wide.degrees,
        "lower_bound": _finite(levels.lower(wide, level)),
        "upper_bound": _finite(levels.upper(wide, level)),
        "detectable": _finite(levels.detectable(wide, level, draft.margin)),
        "alike": None if gain.carried is None else levels.alike(gain, caution),
    }


def _finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


if __name__ == "__main__":
    print(exits(decide)(sys.argv[1]).reason)
