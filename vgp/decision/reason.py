"""The decision in words: one sentence that a manager understands, and the statistics behind it."""

from collections.abc import Sequence

from vgp.base.text.figures import format_percent, format_significant
from vgp.decision.decision import Decision, Reference, RivalCheck
from vgp.evaluation.regression import LOSSES
from vgp.registry.evidence import describe_total


def name_reference(decision: Decision) -> str:
    """Returns the name of the model to beat."""
    return "the champion" if decision.reference == "champion" else name_baseline(decision)


def name_baseline(decision: Decision) -> str:
    """Returns the name of the baseline."""
    if decision.baseline:
        return decision.baseline
    names = {"loss": "the logistic-regression baseline", "bits": "the baseline"}
    return names.get(decision.metric or "loss", "the linear-regression baseline")


def name_simple_model(decision: Decision, rival: RivalCheck) -> str:
    """Returns the name of a simple model."""
    return "gradient boosting" if rival.model == "boosting" else name_baseline(decision)


def name_metric(decision: Decision) -> str:
    """Returns the name of the compared loss, with its unit."""
    if decision.metric in LOSSES:
        return f"{LOSSES[decision.metric]} in {decision.unit}"
    return f"bits per {decision.unit}" if decision.metric == "bits" else "log loss"


def format_loss(decision: Decision, value: float, digits: int = 5) -> str:
    """Formats a loss: four decimals for nats and bits, `digits` significant digits for a regression."""
    if decision.metric not in LOSSES:
        return f"{value:z.4f}"
    return format_significant(value, digits)


def format_verdict(promote: bool, reference: Reference | None, *, decided: bool = True, candidate: bool = False) -> str:
    """Returns the verdict in a few words, such as "Keep the champion"."""
    if not decided or candidate:
        return "Candidate" if decided else "Not decided"
    return "Promote" if promote else "Keep the champion" if reference == "champion" else "Do not promote"


def verdict_of(decision: Decision) -> str:
    """Returns the decision's verdict in a few words."""
    return format_verdict(decision.promote, decision.reference, decided=decision.decided, candidate=decision.candidate)


def needs_approval(decision: Decision) -> bool:
    """Whether a model that passes the test waits for a person, because a simple model or a constant is better."""
    best = decision.best_rival
    beaten = best is not None and best.better and decision.approve != "despite_rivals"
    return beaten or decision.better_constant is not None


# ---- the reasons of decisions without a test


def explain_nothing_to_beat() -> str:
    """Returns the reason when neither a champion nor a baseline was scored."""
    return f"{format_verdict(False, None)}: there is neither a champion nor a baseline to compare with."


def explain_missing_classes(decision: Decision, absent: Sequence[str]) -> str:
    """Returns the reason when the test rows lack a class."""
    names = ", ".join(absent[:3]) + (f" and {len(absent) - 3} more classes" if len(absent) > 3 else "")
    return (
        f"Not decided: none of the {decision.rows:,} test rows has class {names}, so the test cannot show how well a "
        "model predicts it. Test on more rows (a larger test_share, a longer window `test`), or remove the class from "
        "the task."
    )


def explain_same_model(decision: Decision) -> str:
    """Returns the reason when the new model has the champion's weights, with the loss if it is known."""
    first = f"{format_verdict(False, 'champion')}: the new model has exactly the champion's weights"
    if decision.challenger_value is None:
        return f"{first}."
    return f"{first}; {name_metric(decision)} {format_loss(decision, decision.challenger_value)}."


def explain_unscored_champion(decision: Decision) -> str:
    """Returns the reason when the champion could not be scored."""
    return (
        f"{format_verdict(False, 'champion')}: the champion could not be scored, so nothing shows which model is "
        f"better ({_as_clause(decision.champion_problem)}). Decide yourself: vgp models promote."
    )


def explain_too_few_groups(decision: Decision, fewest: int, degrees: float) -> str:
    """Returns the reason when the test data has too few groups for any difference to be significant.

    Args:
        fewest: Groups of equal size that the test needs.
        degrees: Degrees of freedom; for groups of equal size their number less one.
    """
    several = "s" * (decision.groups != 1)
    kind = (
        f" group{several} of rows (by {decision.group}{_describe_assumption(decision)})"
        if decision.group
        else f" row{several}"
    )
    effective = f", worth {degrees + 1:.0f} of equal size" if degrees + 1.5 < decision.groups else ""
    year = f" at the level for {decision.nights:,} decisions a year" if decision.nights > 1 else ""
    fix = " Test on more days, for example with a longer window `test`." if decision.group.startswith("day") else ""
    return (
        f"{format_verdict(False, decision.reference)}: the test data has only {decision.groups}{kind}{effective}; the "
        f"test needs {fewest}{year}.{fix}"
    )


def _as_clause(sentence: str) -> str:
    return sentence.rstrip(".")


def _describe_assumption(decision: Decision) -> str:
    return ", because the task names no group" if decision.group_assumed else ""


# ---- the reason of a decision with a test: which model is better, and what follows


def explain_comparison(decision: Decision) -> str:
    """Returns the reason of a decision that rests on a comparison, without its statistics."""
    return (
        f"{verdict_of(decision)}: {_compare(decision)}.{_explain_evidence(decision)}{_explain_reference(decision)}"
        f"{_explain_constant(decision)}{_explain_rival(decision)}{_explain_next(decision)}"
    )


def _explain_evidence(decision: Decision) -> str:
    """Returns a sentence if the evidence of all nights, and not tonight's test, decides."""
    check = decision.evidence
    if check is None or decision.better_tonight or not (check.passes or check.alone):
        return ""
    total = describe_total(check.total, check.needed)
    return f" {total}, over all nights of this champion." if check.passes else f" {total}; it decides alone."


def _compare(decision: Decision) -> str:
    assert decision.challenger_value is not None and decision.reference_value is not None
    ours, theirs = format_loss(decision, decision.challenger_value), format_loss(decision, decision.reference_value)
    figures, vetoes = f"{name_metric(decision)} {ours} against {theirs}", _list_vetoes(decision)
    verdict = f"the new model is {_rank(decision)} {name_reference(decision)}"
    if decision.better and vetoes:
        return f"{verdict} ({figures}), but {_join(vetoes)}"
    return "; ".join([f"{verdict}: {figures}", *vetoes])


def _rank(decision: Decision) -> str:
    assert decision.difference is not None and decision.interval is not None
    gain, (low, high), margin = decision.difference, decision.interval, decision.margin
    if decision.better:
        return "better than" if gain > 0 else f"at most {-margin:g} worse (margin = {margin:g}) than"
    if gain == 0:
        return "exactly as good as"
    if decision.evidence and decision.evidence.alone and decision.evidence.ahead:
        return "ahead of"
    if high < 0:
        return "worse than"
    if high <= margin:
        return f"better by less than the margin of {margin:zg} than" if low > 0 else "not better than"
    if gain < 0:
        return "not better than"
    return f"not clearly better by the margin of {margin:zg} than" if margin else "not clearly better than"


def _list_vetoes(decision: Decision) -> list[str]:
    check, worse, vetoes = decision.calibration, decision.worse_slices, []
    if check and check.worse:
        ours = format_calibration(check.challenger_error, check.challenger)
        theirs = format_calibration(check.reference_error, check.reference)
        vetoes.append(f"its calibration error is {ours} against {theirs}")
    if worse:
        names = ", ".join(s.name for s in worse[:3]) + (", ..." if len(worse) > 3 else "")
        vetoes.append(f"it is significantly worse on {len(worse)} of {len(decision.tested_slices)} slices ({names})")
    return vetoes


def format_calibration(error: float | None, corrected: float) -> str:
    """Formats a model's calibration error as the evaluation reports it, or for quantiles `corrected`."""
    return f"{corrected if error is None else error:.2%}"


def _explain_reference(decision: Decision) -> str:
    if decision.reference == "champion":
        return ""
    if decision.champion_problem:
        return f" The champion's files are gone ({_as_clause(decision.champion_problem)})."
    return " There is no champion yet."


def _explain_constant(decision: Decision) -> str:
    worse = decision.better_constant
    if worse is None:
        return ""
    loss = f"{LOSSES[worse.metric]} in {worse.unit}" if worse.metric in LOSSES else "log loss"
    ours, theirs = (format_loss(decision, value) for value in (worse.challenger, worse.constant))
    return (
        f" But it is worse than a constant: {loss} {ours} against {theirs} for a prediction of {worse.what} of the "
        "train labels in every row."
    )


def _explain_rival(decision: Decision) -> str:
    """Returns a sentence if the best simple model is better than the new one, or ties with a promoted one."""
    rival = decision.best_rival
    if rival is None:
        return ""
    name = f"{name_simple_model(decision, rival)} ({name_metric(decision)} {format_loss(decision, rival.value)})"
    first = name[:1].upper() + name[1:]
    by, least, most = (format_loss(decision, v, 3) for v in (rival.difference, rival.lower_bound, rival.upper_bound))
    if rival.better:
        return (
            f" {first} is better than the new model by {by} (at least {least} with {100 * decision.confidence:g}% "
            "confidence): a network is not worth it here."
        )
    if rival.tied and decision.promote:
        better = format_loss(decision, -rival.lower_bound, 3)
        return f" It ties with {name}: the new model is between {most} worse and {better} better."
    return ""


def _explain_next(decision: Decision) -> str:
    if decision.candidate:
        way_out = " (approve = despite_rivals promotes without asking)" if decision.better_constant is None else ""
        return f" The model waits as a candidate. To promote it anyway: vgp models promote{way_out}."
    return " It is promoted anyway because approve = despite_rivals." if decision.overrides else ""


# ---- the statistics behind it


def describe_test(decision: Decision) -> str:
    """Returns the statistics of the comparison: rows and groups, the difference with its interval, and the test."""
    assert decision.difference is not None and decision.interval is not None
    low, high = decision.interval if decision.difference >= 0 else (-decision.interval[1], -decision.interval[0])
    size, low_text, high_text = (format_loss(decision, v, 3) for v in (abs(decision.difference), low, high))
    direction = "lower" if decision.difference >= 0 else "higher"
    tested = len(decision.tested_slices)
    fair = f" It is significantly worse on none of {tested} slices." if tested and not decision.worse_slices else ""
    return (
        f"Both models were scored on the same {decision.rows:,} rows{_describe_groups(decision)}. The new model's "
        f"{name_metric(decision)} is {size} {direction} (95% interval {low_text} to {high_text}). "
        f"{_describe_bound(decision)}{fair}"
    )


def _describe_groups(decision: Decision) -> str:
    columns, why = decision.group.split(" and "), _describe_assumption(decision)
    groups = [f"{count:,} groups (by {name}{why})" for count, name in zip(decision.clusters, columns, strict=False)]
    return f" in {_join(groups)}" if groups else ""


def _describe_bound(decision: Decision) -> str:
    if decision.level is None:  # the evidence decides alone
        return "It is ahead." if decision.evidence and decision.evidence.ahead else "It is not ahead."
    assert decision.degrees is not None
    by = " by both groups" if len(decision.clusters) > 1 else ""
    half = "half of " if decision.evidence else ""
    share = (
        f", its share of {half}the {format_percent(1 - decision.confidence)} error allowed for {decision.nights:,} "
        "decisions a year"
    )
    level = format_percent(decision.level) + (share if decision.nights > 1 else "")
    alike = (
        f"; neighbouring groups are assumed to correlate by {decision.alike:.2f}"
        if decision.alike and decision.alike >= 0.005
        else ""
    )
    power = (
        f" These rows show a true gain of {format_loss(decision, decision.detectable, 3)} with 80% probability."
        if decision.detectable is not None
        else ""
    )
    bound = decision.lower_bound
    result = "gives no bound" if bound is None else f"puts the gain above {format_loss(decision, bound, 3)}"
    return (
        f"A one-sided t test{by} ({decision.degrees:,.0f} degrees of freedom{alike}) at a level of {level} {result}"
        f"{explain_bound(decision)}.{power}"
    )


def explain_bound(decision: Decision) -> str:
    """Returns why the deciding bound shows no gain although the 95% interval does, in parentheses; else ""."""
    bound, margin = decision.lower_bound, decision.margin
    if decision.interval is None or bound is None or not bound <= margin < decision.interval[0]:
        return ""
    why = "covers one comparison only" if decision.nights > 1 else "assumes that good and bad groups are symmetric"
    return f" (the 95% interval starts at {format_loss(decision, decision.interval[0], 3)} because it {why})"


def _join(points: list[str]) -> str:
    """Joins points as `a`, `a and b`, or `a, b and c`."""
    return " and ".join([", ".join(points[:-1]), points[-1]]) if len(points) > 1 else points[0]
