"""What a comparison of two models brings forward: figures for people, and the bounds of tonight's test."""

import math
from typing import Any, Literal

from vgp.decision import levels, vetoes
from vgp.decision.decision import INTERVAL_CONFIDENCE, Decision, Reference, RivalCheck
from vgp.decision.gain import Compared, compared
from vgp.evaluation.clusters import Contrast
from vgp.evaluation.predictions import Header, Predictions
from vgp.protocol import outcome

#: Simple models, which stand beside the model to beat.
SIMPLE: tuple[Literal["baseline", "boosting"], ...] = ("baseline", "boosting")


def figures(data: Predictions, reference: Reference, found: Compared, confidence: float) -> dict[str, Any]:
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


def tested(gain: Contrast, draft: Decision) -> dict[str, Any]:
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
