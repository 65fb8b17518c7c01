"""Tonight's part of the evidence: the days of the test rows, what they add to earlier nights, and how it reads.

Half of a year's error goes to tonight's test, and half to the evidence of all nights (`vgp.registry.evidence`), which
finds gains that one window of test rows is too short to show. The evidence takes all of the error with `worst_day`, and
if the test rows are too few for tonight's test.
"""

import re
import statistics

import numpy as np

from vgp.base.text.figures import format_percent
from vgp.decision import levels
from vgp.decision.decision import NO_DAYS, Decision, EvidenceCheck, check_worst_day, explain_absence
from vgp.decision.levels import Compared
from vgp.evaluation import clusters
from vgp.evaluation.predictions import Predictions
from vgp.registry.evidence import Day, Evidence, describe_total, is_date

#: One-sided level at which tonight's challenger counts as ahead: a guard against a spoilt one, not a proof.
AHEAD = 0.2


def weigh(
    data: Predictions, found: Compared, draft: Decision, before: Evidence, worst_day: float
) -> EvidenceCheck | str:
    """Returns tonight's part of the evidence, or why there is none, as a clause.

    Raises:
        UserError: `worst_day` is set and there is no evidence, or days differ by more than it.
    """
    groups = [name for name in (data.header.group, data.header.second_group) if name]
    check_worst_day(worst_day, groups)
    if why := explain_absence(groups):
        return why
    days = days_of(data, found.increase, draft.margin)
    if not days:
        check_worst_day(worst_day, ())
        return NO_DAYS
    if draft.nights == 1 and not worst_day:
        return "this is a single decision (nights = 1)"
    half = levels.tonight(draft.confidence, draft.nights) / 2
    alone = worst_day > 0 or not levels.enough(half, found.gain)
    needed = round((1 if alone else 2) / (1 - draft.confidence), 6)
    least = clusters.ROUNDING * (abs(found.theirs) or 1.0)
    after = before.after(days, needed=needed, worst_day=worst_day, least=least)
    ahead = found.gain.degrees > 0 and levels.within(found.gain, 1 - AHEAD)[0] > draft.margin
    if ahead:  # a spoilt challenger may differ by any amount, and is not promoted
        check_worst_day(worst_day, None, statistics.stdev(day.gain / day.rows for day in days))
    return EvidenceCheck(
        days=days, new_days=after.all_days - before.all_days, total=after.total, needed=needed, ahead=ahead,
        worst_day=worst_day, least=least, alone=alone,
    )  # fmt: skip


def days_of(data: Predictions, increase: np.ndarray, margin: float) -> tuple[Day, ...]:
    """Returns the gain of each day of the first grouping, less the margin; () if it names no days.

    Dates are days, and so are whole numbers of a column with `day` or `date` as a word of its name.
    """
    names = data.groupings[0]
    numbered = bool({"day", "date"} & set(re.split(r"[^a-z]+", data.header.group.lower())))
    if not names.values or not all(
        value is not None and (is_date(value) or (numbered and value.lstrip("-").isdecimal())) for value in names.values
    ):
        return ()
    count = len(names.values)
    rows = np.bincount(names.codes, data.weight, count).astype(np.float64)
    gains = np.bincount(names.codes, -increase, count) - margin * rows
    return tuple(
        Day(name=name, gain=float(gain), rows=float(size))
        for name, gain, size in zip(names.values, gains, rows, strict=True)
        if size > 0
    )


# ---- words


def describe_evidence(decision: Decision) -> str:
    """Returns the evidence in sentences: how much there is, what it means, and who decides; "" without any."""
    check = decision.evidence
    if check is None:
        why = decision.no_evidence
        return f"No evidence is collected over the nights, because {why}; tonight's test decides alone." if why else ""
    luck = format_percent(1 / check.needed)
    text = (
        f"{describe_total(check.total, check.needed)}. It grows with each week in which challengers beat the champion, "
        f"and luck alone reaches {check.needed:.0f} with a probability of at most {luck}."
    )
    if check.total >= check.needed and not check.ahead:
        text += " It is enough, but tonight's model is not ahead of the champion on tonight's rows."
    costly = [day for day in check.days if day.gain < -check.worst_day * day.rows] if check.worst_day else []
    if costly:
        text += f" On {len(costly)} of {len(check.days)} days the new model cost more than worst_day allows."
    if check.worst_day:
        return f"{text} With worst_day = {check.worst_day:g} it decides alone."
    return f"{text} It decides alone, because the test rows are too few for tonight's test." if check.alone else text
