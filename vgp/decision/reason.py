"""The decision as one sentence for people, with its numbers."""

from collections.abc import Sequence

from vgp.base.text.figures import percent, significant
from vgp.decision.decision import Decision, Reference, RivalCheck
from vgp.evaluation.regression import LOSSES


def rival(decision: Decision) -> str:
    """The model to beat, in words."""
    return "the champion" if decision.reference == "champion" else baseline(decision)


def baseline(decision: Decision) -> str:
    """The baseline, in words."""
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
        return f"{value:z.4f}"
    return significant(value, digits)


def verdict(promote: bool, reference: Reference | None, *, decided: bool = True, candidate: bool = False) -> str:
    """The decision in a few words."""
    if not decided or candidate:
        return "Candidate" if decided else "Not decided"
    return "Promote" if promote else "Keep the champion" if reference == "champion" else "Do not promote"


def verdict_of(decision: Decision) -> str:
    """The decision in a few words."""
    return verdict(decision.promote, decision.reference, decided=decision.decided, candidate=decision.candidate)


def nothing_to_beat() -> str:
    return f"{verdict(False, None)}: there is neither a champion nor a baseline to compare with."


def without_classes(decision: Decision, absent: Sequence[str]) -> str:
    """The reason where no scored row is of some classes."""
    names = ", ".join(absent[:3]) + (f" and {len(absent) - 3} classes more" if len(absent) > 3 else "")
    return (
        f"Not decided: none of the {decision.rows:,} test rows is of class {names}, so nothing shows how well a model "
        "knows it, and nothing is promoted. Test on more rows (a larger test_share, a longer window `test`), or leave "
        "the class out of the task."
    )


def same(decision: Decision) -> str:
    """The reason where the new model is the champion; with the figures, if there are any."""
    first = f"{verdict(False, 'champion')}: the new model is the champion, weight for weight"
    return f"{first}; on the same {decision.rows:,} rows {_figures(decision)}." if decision.metric else f"{first}."


def incomparable(decision: Decision) -> str:
    """The reason where there is a champion that nothing can be held against."""
    return (
        f"{verdict(False, 'champion')}: it could not be compared with the new model, so nothing shows which is better "
        f"({_as_clause(decision.champion_problem)}). A person decides: vgp models promote."
    )


def _as_clause(sentence: str) -> str:
    return sentence.rstrip(".")


def too_few(decision: Decision, fewest: int, degrees: float) -> str:
    """The reason where no difference at all could be told from luck.

    Args:
        fewest: Groups of one size that it takes.
        degrees: Of freedom: of groups of one size one less than there are.
    """
    several = "s" * (decision.groups != 1)
    by = f" group{several} of rows (by {decision.group}{_assumed(decision)})"
    kind = f"{decision.groups}{by if decision.group else f' row{several}'}"
    longer = ": test on more days, as with a longer window `test`" if decision.group.startswith("day") else ""
    unequal = f", which by their sizes are worth {degrees + 1:.0f}" if degrees + 1.5 < decision.groups else ""
    return (
        f"{verdict(False, decision.reference)}: the test data has only {kind}{unequal}, and it takes {fewest} to tell "
        f"an improvement from luck{_of_the_year(decision)}{longer}."
    )


def _of_the_year(decision: Decision) -> str:
    return f" in one of {decision.nights:,} decisions a year" if decision.nights > 1 else ""


def compared(decision: Decision) -> str:
    """The reason of a decision that rests on a comparison."""
    first = "" if decision.reference == "champion" else "there is no champion yet, and "
    if decision.champion_problem:
        first = f"the champion is gone ({_as_clause(decision.champion_problem)}), and "
    rows = f"on the same {decision.rows:,} rows{_in_groups(decision)}"
    outcome = _approval(decision) if decision.promote or decision.candidate else _doubts(decision)
    return (
        f"{verdict_of(decision)}: {first}{rows} {_figures(decision)}{outcome}.{_test(decision)}"
        f"{_constant(decision)}{_rival(decision)}{_next(decision)}"
    )


def _in_groups(decision: Decision) -> str:
    columns = decision.group.split(" and ")
    why = _assumed(decision)
    counted = [f"{count:,} groups (by {name}{why})" for count, name in zip(decision.clusters, columns, strict=False)]
    return f" in {_enumeration(counted)}" if counted else ""


def _assumed(decision: Decision) -> str:
    return ", since no group is named" if decision.group_assumed else ""


def _test(decision: Decision) -> str:
    """A further sentence: what was tested, at which level, and what could have been seen."""
    assert decision.level is not None and decision.degrees is not None
    by = " by both groups" if len(decision.clusters) > 1 else ""
    share = f"this decision's share of the {percent(1 - decision.confidence)} that {decision.nights:,} a year may err"
    level = percent(decision.level) + (f", {share}" if decision.nights > 1 else "")
    assert decision.lower_bound is not None
    sure = f"the gain is above {amount(decision, decision.lower_bound, 3)}{careful(decision)}"
    seen = (
        f"; one of {amount(decision, decision.detectable, 3)} would have been seen with 80% probability"
        if decision.detectable is not None
        else ""
    )
    alike = (
        f"; each {decision.group.partition(' and ')[0]} taken to be like the one before by a correlation of "
        f"{decision.alike:.2f}"
        if decision.alike and decision.alike >= 0.005
        else ""
    )
    return f" By a t test{by} ({decision.degrees:,.0f} degrees of freedom{alike}) at {level}, {sure}{seen}."


def careful(decision: Decision) -> str:
    """Why the bound that decides is no gain where the interval for readers shows one, in parentheses; else ""."""
    bound, margin = decision.lower_bound, decision.margin
    if decision.interval is None or bound is None or not bound <= margin < decision.interval[0]:
        return ""
    why = "is of one comparison alone, at 2.5%" if decision.nights > 1 else "takes the groups to be symmetric"
    return f" (and not the {amount(decision, decision.interval[0], 3)} of the 95% interval, which {why})"


def waits(decision: Decision) -> bool:
    """Whether a model that passes the test is for a person to decide on."""
    best = decision.best_rival
    beaten = best is not None and best.better and decision.approve != "despite_rivals"
    return beaten or decision.better_constant is not None


def simple(decision: Decision, rival: RivalCheck) -> str:
    """A simple model in words."""
    return "gradient boosting" if rival.model == "boosting" else baseline(decision)


def _constant(decision: Decision) -> str:
    """A further sentence where a constant is better; else ""."""
    worse = decision.better_constant
    if worse is None:
        return ""
    what = f"{LOSSES[worse.metric]} in {worse.unit}" if worse.metric in LOSSES else "log loss"
    ours, theirs = (amount(decision, value) for value in (worse.challenger, worse.constant))
    return (
        f" The new model is worse than a constant: its {what} is {ours}, against {theirs} of {worse.what} of the train "
        "labels, predicted for every row."
    )


def _rival(decision: Decision) -> str:
    """A further sentence where the best simple model is better, or as good as a model that is promoted; else ""."""
    rival = decision.best_rival
    if rival is None:
        return ""
    name, value = simple(decision, rival), amount(decision, rival.value)
    by, least, most = (amount(decision, v, 3) for v in (rival.difference, rival.lower_bound, rival.upper_bound))
    if rival.better:
        sure = f"at least {least} with {100 * decision.confidence:g}% confidence"
        return (
            f" But {name} ({metric(decision)} {value}) is better than the new model by {by} ({sure}): a network is not "
            "worth it here."
        )
    if rival.tied and decision.promote:
        return (
            f" It is a tie with {name} ({metric(decision)} {value}): the new model is between {most} worse and "
            f"{amount(decision, -rival.lower_bound, 3)} better."
        )
    return ""


def _next(decision: Decision) -> str:
    """A further sentence on what becomes of a model that a simple one beats; else ""."""
    if decision.candidate:
        despite = " (approve = despite_rivals promotes without asking)" if decision.better_constant is None else ""
        return f" So it waits as a candidate, and a person decides: vgp models promote{despite}."
    if decision.overrides:
        return " It is promoted all the same: approve = despite_rivals."
    return ""


def _figures(decision: Decision) -> str:
    assert decision.difference is not None and decision.metric and decision.reference
    assert decision.challenger_value is not None and decision.reference_value is not None
    ours, theirs = amount(decision, decision.challenger_value), amount(decision, decision.reference_value)
    verb = "are" if decision.metric == "bits" else "is"
    values = f"the new model's {metric(decision)} {verb} {ours} against {theirs} of {rival(decision)}"
    if decision.difference == 0:
        return f"{values}, no difference"
    return f"{values}, {amount(decision, abs(decision.difference), 3)} {_direction(decision)}"


def _direction(decision: Decision) -> str:
    """Better or worse, with an ordinary interval."""
    assert decision.difference is not None and decision.interval is not None
    low, high = decision.interval
    if decision.difference < 0:
        low, high = -high, -low
    ends = f"{amount(decision, low, 3)} to {amount(decision, high, 3)}"
    return f"{'better' if decision.difference > 0 else 'worse'} (95% interval {ends})"


def _doubts(decision: Decision) -> str:
    check, worse, doubts = decision.calibration, decision.worse_slices, []
    if not decision.better:
        above = f" above {decision.margin:zg}" if decision.margin else ""
        no_gain = decision.interval is not None and decision.interval[1] <= decision.margin
        doubts.append(f"that is {'no gain' if no_gain else 'not enough evidence of a gain'}{above}")
    if check and check.worse:
        rates = "quantiles" if decision.metric in LOSSES else "rates"
        doubts.append(f"its {rates} are off by {check.challenger:.1%} against {check.reference:.1%}")
    if worse:
        shown = ", ".join(s.name for s in worse[:3]) + (", ..." if len(worse) > 3 else "")
        doubts.append(f"it is significantly worse in {len(worse)} of {len(decision.tested_slices)} slices ({shown})")
    return f", {'but' if decision.difference and decision.difference > 0 else 'and'} {_enumeration(doubts)}"


def _approval(decision: Decision) -> str:
    assert decision.difference is not None
    tested = len(decision.tested_slices)
    points = [f"which is within the margin of {decision.margin:zg}"] if decision.difference <= 0 else []
    points += ["calibration is not worse"] if decision.calibration else []
    points += [f"none of {tested} slices is significantly worse"] if tested else []
    return f", {_enumeration(points)}" if points else ""


def _enumeration(points: list[str]) -> str:
    """One point, or `a and b`, or `a, b and c`."""
    return " and ".join([", ".join(points[:-1]), points[-1]]) if len(points) > 1 else points[0]
