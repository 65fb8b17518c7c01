"""The gate: a paired test of challenger against champion on the same test rows.

The gate promotes if all three conditions hold:

1. Better: the lower confidence bound of the paired difference is above the margin. The difference is in log loss; for a
   regression in the task's loss, by default the mean pinball loss of its quantiles; for other tasks in bits per unit of
   weight. Log loss and pinball loss are proper scores of probabilities and quantiles (Gneiting & Raftery 2007,
   https://doi.org/10.1198/016214506000001437); AUC measures the ranking only and is reported beside them. The bound is
   that of a t test over clusters of rows (`clusters`) at a level that all decisions of a year share (`levels`).
2. Calibrated, for classes and quantiles: the calibration error without sampling noise has not grown by more than the
   tolerance of `vetoes`, or the growth is not significant. For quantiles it is measured in bins of similar predictions,
   because over all rows too wide and too narrow intervals would cancel.
3. Fair: no slice has a significantly higher loss (one-sided, robust to groups, Holm over all slices).

Condition 1 is also met if the evidence of all nights suffices (`evidence`): test and evidence have half of the year's
error each. A challenger with the champion's weights is never promoted. Without a champion, or if its files are gone,
the baseline is the model to beat; a champion that exists but cannot be scored is kept. Condition 1 carries the burden
of proof and the year's level; conditions 2 and 3 are vetoes, tested at the confidence of one night.

A model that passes waits as a candidate if gradient boosting or the baseline is significantly better (unless
`approve = despite_rivals`), or if a constant prediction from the train labels is better. If the test rows lack a class,
nothing is decided.

    python -m vgp.decision.decide DIRECTORY     # DIRECTORY/predictions.parquet -> decision.json
"""

import math
import sys
from pathlib import Path
from typing import Literal

import numpy as np

from vgp.base.exits import exits
from vgp.decision import decision, levels, reason, vetoes
from vgp.decision import evidence as nightly
from vgp.decision.decision import INTERVAL_CONFIDENCE, Approval, Decision, Reference, RivalCheck, Terms
from vgp.decision.levels import Compared, compared
from vgp.evaluation import predictions, record
from vgp.evaluation.clusters import Contrast
from vgp.evaluation.predictions import Header, Predictions
from vgp.protocol import outcome
from vgp.registry.evidence import Evidence

__all__ = ["Decision", "decide"]

#: Candidates for the model to beat; the first that was scored is taken.
RIVALS: tuple[Reference, ...] = ("champion", "baseline")


def decide(
    evaluation_dir: str | Path, *, margin: float = 0.0, confidence: float = 0.95, nights: int = decision.NIGHTS,
    approve: Approval = "auto", worst_day: float = 0.0, evidence: Evidence | None = None,
) -> Decision:  # fmt: skip
    """Compares challenger and champion on the saved predictions; writes `decision.json` beside them and returns it.

    Args:
        evaluation_dir: Directory with `predictions.parquet`.
        margin: The lower bound of the gain must exceed this value, in nats, bits, or the unit of a regression's loss.
            A negative margin admits a challenger that is worse by less than it.
        confidence: Probability that no decision of a year promotes a model by luck, in (0.5, 1).
        nights: Decisions planned for a year. The one-sided level is (1 - confidence) / nights, or 1 - confidence as
            long as there is no champion to replace.
        approve: With `despite_rivals`, a model that a simple model beats is promoted without a person.
        worst_day: What one day may cost on average over its rows at worst, in the unit of the loss: the evidence of all
            nights then decides alone. 0 = not stated.
        evidence: The evidence before this night, against the champion that was scored; None = none is collected.

    Raises:
        UserError: an argument out of range, no readable predictions, or a `worst_day` that these rows refute.
    """
    decision.check(margin, confidence, nights, worst_day)
    if _has_no_scores(evaluation_dir):
        result = Decision(
            promote=False, decided=False, reason=predictions.UNDECIDED, rows=0, groups=0,
            margin=margin, confidence=confidence, nights=nights, approve=approve,
        )  # fmt: skip
    else:
        data = predictions.read(evaluation_dir)
        result = _decide(data, Terms(
            margin=margin, confidence=confidence, nights=nights, approve=approve, worst_day=worst_day,
            evidence=evidence,
        ))  # fmt: skip
        if doubts := data.header.doubts:
            result = result.model_copy(update={"reason": f"{result.reason} In doubt: {' '.join(doubts)}"})
    decision.save(result, evaluation_dir)
    return result


def _has_no_scores(evaluation_dir: str | Path) -> bool:
    """Whether this is the evaluation of a script that wrote no predictions."""
    folder = Path(evaluation_dir)
    return (
        not (folder / predictions.FILE_NAME).exists()
        and (folder / record.FILE_NAME).exists()
        and not record.load(folder).scored
    )


def _decide(data: Predictions, terms: Terms) -> Decision:
    decision.check(terms.margin, terms.confidence, terms.nights, terms.worst_day, bounded=not data.header.quantiles)
    draft = _draft(data, terms)
    if draft.champion_problem and not data.header.champion_gone:
        kept = draft.model_copy(update={"reference": "champion"})
        return kept.model_copy(update={"reason": reason.explain_unscored_champion(kept)})
    if (absent := _absent(data)) and not draft.same:
        return draft.model_copy(update={"decided": False, "reason": reason.explain_missing_classes(draft, absent)})
    return _add_comparison(data, draft, draft.reference, terms) if draft.reference else draft


def _absent(data: Predictions) -> tuple[str, ...]:
    """Returns the classes that no scored row has."""
    counts = np.bincount(data.label, minlength=len(data.header.classes)) if data.header.classes else ()
    return tuple(name for name, count in zip(data.header.classes, counts, strict=True) if not count)


def _draft(data: Predictions, terms: Terms) -> Decision:
    """Returns the decision before any comparison."""
    header = data.header
    reference = next((model for model in RIVALS if model in header.models), None)
    return Decision(
        promote=False,
        reason=reason.explain_nothing_to_beat(),
        reference=reference,
        champion_problem=header.champion_problem,
        same=header.same,
        margin=terms.margin,
        confidence=terms.confidence,
        nights=terms.nights if _replaces(header, reference) else 1,
        approve=terms.approve,
        rows=len(data),
        group=" and ".join(filter(None, (header.group, header.second_group))),
        group_assumed=header.group_assumed,
        groups=len(data),
        baseline=header.baseline,
    )


def _replaces(header: Header, reference: Reference | None) -> bool:
    """Whether a promotion would replace a champion; only such decisions share the year's error.

    The first model is compared with the baseline as a single decision: at a year's level a table with a month of test
    days would never get its first champion.
    """
    return reference == "champion" or bool(header.champion_problem)


def _add_comparison(data: Predictions, draft: Decision, reference: Reference, terms: Terms) -> Decision:
    found = compared(data, reference)
    counts, level = found.gain.clusters, levels.tonight(draft.confidence, draft.nights)
    draft = draft.model_copy(update={"groups": min(counts), "clusters": counts if data.header.group else ()})
    if terms.evidence and reference == "champion" and not draft.same:
        weighed = nightly.weigh(data, found, draft, terms.evidence, terms.worst_day)
        draft = draft.model_copy(update={"no_evidence" if isinstance(weighed, str) else "evidence": weighed})
    check = draft.evidence
    level, alone = level / 2 if check else level, check is not None and check.alone
    if not draft.same and not (draft.groups > 1 if alone else levels.enough(level, found.gain)):
        why = reason.explain_too_few_groups(draft, levels.fewest(level), found.gain.degrees)
        return draft.model_copy(update={"reason": why, "details": nightly.describe_evidence(draft)})
    if draft.groups >= levels.FEWEST_CLUSTERS or alone:
        draft = draft.model_copy(update=comparison_figures(data, reference, found, draft.confidence))
    if draft.same:
        return draft.model_copy(update={"reason": reason.explain_same_model(draft)})
    if not alone:
        draft = draft.model_copy(update=bounds_figures(found.gain, draft, level))
    vetoed = bool(draft.worse_slices) or (draft.calibration is not None and draft.calibration.worse)
    passes, waits = draft.better and not vetoed, reason.needs_approval(draft)
    decided = draft.model_copy(update={"promote": passes and not waits, "candidate": passes and waits})
    return decided.model_copy(
        update={
            "reason": reason.explain_comparison(decided),
            "details": f"{reason.describe_test(decided)} {nightly.describe_evidence(decided)}".rstrip(),
        }
    )


# ---- the fields of a decision: figures for people, and the bounds of the test


#: Simple models that are compared in addition to the model to beat.
SIMPLE: tuple[Literal["baseline", "boosting"], ...] = ("baseline", "boosting")


def comparison_figures(
    data: Predictions, reference: Reference, found: Compared, confidence: float
) -> dict[str, object]:
    """Returns the figures and vetoes of a `Decision`."""
    header = data.header
    # A named baseline was fitted on the labels, so it is calibrated by construction.
    comparable = bool(header.classes or header.quantiles) and not (reference == "baseline" and header.baseline)
    return {
        "metric": header.decided_by if header.quantiles else "loss" if header.classes else "bits",
        "unit": _unit(header),
        "challenger_value": found.ours,
        "reference_value": found.theirs,
        "difference": found.gain.estimate,
        "interval": levels.within(levels.widen_error(found.gain), (1 + INTERVAL_CONFIDENCE) / 2),
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
    """Returns the unit of the loss; "" for nats."""
    if header.quantiles:
        return outcome.loss_unit(header.unit, header.target, header.decided_by)
    return "" if header.classes else header.weight.removesuffix("s") or "row"


def _rival(model: Literal["baseline", "boosting"], found: Compared, confidence: float) -> RivalCheck:
    """Returns the comparison with a simple model, with signs from the rival's point of view."""
    low, high = levels.within(levels.widen_error(found.gain), confidence)
    return RivalCheck(
        model=model, value=found.theirs, difference=-found.gain.estimate, lower_bound=-high, upper_bound=-low
    )


def bounds_figures(gain: Contrast, draft: Decision, level: float) -> dict[str, object]:
    """Returns the test's fields of a `Decision`; decisions that share a year's error assume more correlated groups."""
    caution = levels.CAUTION if draft.nights > 1 else 0.0
    wide = levels.widen_error(gain, caution)
    return {
        "level": level,
        "degrees": wide.degrees,
        "lower_bound": _require_finite(levels.lower(wide, level)),
        "upper_bound": _require_finite(levels.upper(wide, level)),
        "detectable": _require_finite(levels.detectable(wide, level, draft.margin)),
        "alike": None if gain.carried is None else levels.alike(gain, caution),
    }


def _require_finite(bound: float) -> float | None:
    return bound if math.isfinite(bound) else None


if __name__ == "__main__":
    print(exits(decide)(sys.argv[1]).reason)
