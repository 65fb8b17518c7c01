"""The decision as one sentence for people, with its numbers."""

from training.evaluation.decision import Decision, Reference

NAMES = {"champion": "the champion", "baseline": "the logistic-regression baseline"}
METRICS = {"auc": "AUC", "loss": "log loss"}


def verdict(promote: bool, reference: Reference | None) -> str:
    """The decision in a few words."""
    return "Promote" if promote else "Keep the champion" if reference == "champion" else "Do not promote"


def nothing_to_beat() -> str:
    return f"{verdict(False, None)}: there is neither a champion nor a baseline to compare with."


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
    doubts = _doubts(decision)
    outcome = f", but {' and '.join(doubts)}" if doubts else _approval(decision)
    return (
        f"{verdict(decision.promote, decision.reference)}: {first}on the same {decision.rows:,} rows{by_group} "
        f"{_figures(decision)}{outcome}."
    )


def _figures(decision: Decision) -> str:
    assert decision.difference is not None and decision.metric and decision.reference
    rival = NAMES[decision.reference]
    values = f"{decision.challenger_value:.4f} against {decision.reference_value:.4f} of {rival}"
    change = "better" if decision.difference > 0 else "worse"
    difference = f"{abs(decision.difference):.4f} {change}" if decision.difference else "no difference"
    bound = f"with {100 * decision.confidence:g} % confidence the gain is at least {decision.lower_bound:+.4f}"
    return f"{METRICS[decision.metric]} is {values}, {difference} ({bound})"


def _doubts(decision: Decision) -> list[str]:
    assert decision.lower_bound is not None and decision.calibration is not None
    check, worse, doubts = decision.calibration, decision.worse_slices, []
    if not decision.lower_bound > decision.margin:
        doubts.append(f"that is no evidence of a gain above {decision.margin:g}")
    if check.worse:
        doubts.append(f"its calibration error is {check.challenger:.1%} against {check.reference:.1%}")
    if worse:
        shown = ", ".join(f"{s.column} {s.value}" for s in worse[:3]) + (", ..." if len(worse) > 3 else "")
        doubts.append(f"it is significantly worse in {len(worse)} of {len(decision.tested_slices)} slices ({shown})")
    return doubts


def _approval(decision: Decision) -> str:
    tested = len(decision.tested_slices)
    slices = f", and none of {tested} slices is significantly worse" if tested else ""
    return (", calibration is not worse" if slices else " and calibration is not worse") + slices
