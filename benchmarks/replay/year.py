"""Replays all policies through the year."""

from collections.abc import Callable

from benchmarks.replay.policies import FIRST, LAST, POLICIES, UNGATED, Month, Year
from benchmarks.replay.work import Work


def replay(work: Work, report: Callable[[str], None]) -> list[Year]:
    """Returns a year of each policy; the last is `UNGATED`, whose champion is the newest model, better or not."""
    years, ungated = [Year(policy) for policy in POLICIES], Year(UNGATED)
    for year in years:
        first = work.night(year.policy, FIRST, {"when": "always"})
        released = work.release(first, year.policy, FIRST)
    newest, number = work.model(first.data, work.dataset(first.data)), 1
    report(f"2013-{FIRST:02}  {'all':12} first model: {released.words}")
    for month in range(FIRST + 1, LAST + 1):
        for year in years:
            lived, pins = _month(work, year.policy, month, report)
            year.months.append(lived)
        data = work.dataset(pins)
        rows, scored = years[0].months[-1].rows, work.scores(newest, data)
        ungated.months.append(Month(month, number, *scored, True, "every model reigns", replaced=True, rows=rows))
        newest, number = work.model(pins, data), number + 1
    return [*years, ungated]


def _month(work: Work, policy: str, month: int, report: Callable[[str], None]) -> tuple[Month, str]:
    """Replays the month under one policy, and returns it with the pins of its data, which all policies share."""
    night = work.night(policy, month, POLICIES[policy])
    champion, folder = work.champion(policy)
    lived = Month(month, champion, *work.scores(folder, work.dataset(night.data)))
    lived.trained, lived.why = night.verdict.train, night.verdict.why
    if lived.trained:
        lived.released = work.release(night, policy, month)
        lived.replaced, lived.rows = work.champion(policy)[0] != champion, lived.released.rows
    figures = f"version {lived.champion}  loss {lived.loss:.4f}  AUC {lived.auc:.4f}"
    words = lived.released.words if lived.released else ""
    report(f"2013-{month:02}  {policy:12} {figures}  {night.verdict.headline} {words}")
    return lived, night.data
