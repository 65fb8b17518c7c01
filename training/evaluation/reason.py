"""The decision as one sentence for people, with its numbers."""

import math

from training.evaluation.decision import Decision, Reference
from training.evaluation.regression import LOSSES


def rival(decision: Decision) -> str:
    """The model to beat, in words."""
    if decision.reference == "champion":
        return "the champion"
    if decision.baseline:
        return decision.baseline
    names = {"loss": "the logistic-regression baseline", "bits": "the baseline"}
    return names.get(decision.metric or "loss", "the linear-regression baseline")


def metric(decision: Decision) -> str:
    """What was compared, in words."""
    if decision.metric in LOSSES:
        return f"{LOSSES[decision.metric]} in {decision.unit}"
    return f"bits per {decision.unit}" if decision.metric == "bits" else "log loss"


def amount(decision: Decision, value: float, digits: int = 5) -> str:
    """A loss as people read it: four decimals of nats and bits, of a regression so many digits that tell."""
    if decision.metric not in LOSSES:
        return f"{value:.4f}"
    return number(value, digits)


def number(value: float, digits: int = 4) -> str:
    """A number in any unit with so many digits that tell: 68,050 and 0.001234, and powers of ten only where it must."""
    if not value or not 1e-6 <= abs(value) < 1e9:
        return f"{value:.{digits}g}"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def verdict(promote: bool, reference: Reference | None, *, decided: bool = True) -> str:
    """The decision in a few words."""
    if not decided:
        return "Not decided"
    return "Promote" if promote else "Keep the champion" if reference == "champion" else "Do not promote"


def undecided(without: str) -> str:
    """The reason where the model's predictions are not known."""
    return f"Not decided: the script left no {without}, so nothing of it can be compared."


def nothing_to_beat() -> str:
    return f"{verdict(False, None)}: there is neither a champion nor a baseline to compare with."


def same(decision: Decision) -> str:
    """The reason where the new model is the champion; with the figures, if there are any."""
    first = f"{verdict(False, 'champion')}: the new model is the champion, weight for weight"
    return f"{first}; on the same {decision.rows:,} rows {_figures(decision)}." if decision.metric else f"{first}."


def too_few(decision: Decision, fewest: int) -> str:
    kind = f"{decision.groups} groups of rows (by {decision.group})" if decision.group else f"{decision.groups} rows"
    return (
        f"{verdict(False, decision.reference)}: the test data has only {kind}, "
        f"and it takes {fewest} to tell an improvement from luck."
    )


def compared(decision: Decision) -> str:
    """The reason of a decision that rests on a comparison."""
    first = "" if decision.reference == "champion" else "there is no champion yet, and "
    by_group = f" in {decision.groups:,} groups (by {decision.group})" if decision.group else ""
    return (
        f"{verdict(decision.promote, decision.reference)}: {first}on the same {decision.rows:,} rows{by_group} "
        f"{_figures(decision)}{_approval(decision) if decision.promote else _doubts(decision)}.{worth(decision)}"
    )


def worth(decision: Decision) -> str:
    """A further sentence where gradient boosting is better than the network; else ""."""
    rival = decision.boosting
    if rival is None or not rival.better:
        return ""
    by, least = (amount(decision, value, 3) for value in (rival.difference, rival.lower_bound))
    return (
        f" Gradient boosting is better by {by} (at least {least} with {100 * decision.confidence:g}% confidence): "
        "a network is not worth it here."
    )


def _figures(decision: Decision) -> str:
    assert decision.difference is not None and decision.metric and decision.reference
    assert decision.challenger_value is not None and decision.reference_value is not None
    ours, theirs = amount(decision, decision.challenger_value), amount(decision, decision.reference_value)
    verb = "are" if decision.metric == "bits" else "is"
    values = f"{metric(decision)} {verb} {ours} against {theirs} of {rival(decision)}"
    if decision.difference == 0:
        return f"{values}, no difference"
    return f"{values}, {amount(decision, abs(decision.difference), 3)} {_direction(decision)}"


def _direction(decision: Decision) -> str:
    """Better or worse, and what the bound at the confidence still allows."""
    assert decision.difference is not None and decision.lower_bound is not None
    low, sure = decision.lower_bound, f"{100 * decision.confidence:g}% confidence"
    if decision.difference > 0:
        bound = amount(decision, abs(low), 3)
        return f"better (at least {bound} with {sure})" if low > 0 else f"better (perhaps {bound} worse, at {sure})"
    return f"worse (at most {amount(decision, -low, 3)} with {sure})"


def _doubts(decision: Decision) -> str:
    assert decision.lower_bound is not None
    check, worse, doubts = decision.calibration, decision.worse_slices, []
    if not decision.lower_bound > decision.margin:
        above = f" above {decision.margin:g}" if decision.margin else ""
        doubts.append(f"that is no evidence of a gain{above}")
    if check and check.worse:
        rates = "quantiles" if decision.metric in LOSSES else "rates"
        doubts.append(f"its {rates} are off by {check.challenger:.1%} against {check.reference:.1%}")
    if worse:
        shown = ", ".join(f"{s.column} {s.value}" for s in worse[:3]) + (", ..." if len(worse) > 3 else "")
        doubts.append(f"it is significantly worse in {len(worse)} of {len(decision.tested_slices)} slices ({shown})")
    return f", {'but' if decision.difference and decision.difference > 0 else 'and'} {_enumeration(doubts)}"


def _approval(decision: Decision) -> str:
    assert decision.difference is not None
    tested = len(decision.tested_slices)
    points = [f"which is within the margin of {decision.margin:g}"] if decision.difference <= 0 else []
    points += ["calibration is not worse"] if decision.calibration else []
    points += [f"none of {tested} slices is significantly worse"] if tested else []
    return f", {_enumeration(points)}" if points else ""


def _enumeration(points: list[str]) -> str:
    """One point, or `a and b`, or `a, b and c`."""
    return " and ".join([", ".join(points[:-1]), points[-1]]) if len(points) > 1 else points[0]
