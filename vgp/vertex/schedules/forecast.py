"""What a declared schedule will do: when it runs next, what that can cost, and what is in doubt about its times."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

from vgp.base.text import times
from vgp.base.text.figures import usd
from vgp.check import cost_bound
from vgp.vertex.schedules.cron import ClockChange, Cron
from vgp.vertex.schedules.declared_schedule import CHAMPION, NIGHTS, Declaration
from vgp.vertex.schedules.outlook import Outlook

RUNS_SHOWN = 5


def runs(declaration: Declaration, now: datetime) -> list[datetime]:
    """The next runs as far as start, end and number allow."""
    declared = declaration.declared
    if declared.paused:
        return []
    after = max(now, declared.start) if declared.start else now
    moments = declaration.cron.next(min(RUNS_SHOWN, declared.max_runs or RUNS_SHOWN), after)
    return [time for time in moments if not declared.end or time <= declared.end]


def per_month(declaration: Declaration, now: datetime) -> float:
    """Runs in a month, on average."""
    month = declaration.cron.per_month(now)
    return min(month, declaration.declared.max_runs) if declaration.declared.max_runs else month


def cost_words(declaration: Declaration, now: datetime) -> list[str]:
    """What a run and a month can cost at most, and what is not in it: a line for each."""
    run, month = cost_bound.most_usd(declaration.steps), per_month(declaration, now)
    left_out = cost_bound.not_in_it(declaration.steps)
    if left_out and not run:
        return [f"not known: {left_out}"]
    bound = "at least" if left_out else "at most"
    return [
        f"{bound} {usd(run)} a run, if every step takes all the time that it may",
        f"{bound} {usd(run * month)} a month, in {month:.1f} runs",
        *([f"not in it: {left_out}"] if left_out else []),
        *filter(None, [times.price_dates(cost_bound.price_dates(declaration.steps), now.date())]),
    ]


def follows(declaration: Declaration) -> str:
    """The parameters that follow from the schedule and not from pipelines.toml; "" if none does."""
    values = declaration.job.get("runtimeConfig", {}).get("parameterValues", {})
    names = [name for name in (CHAMPION, NIGHTS) if name in values and name not in declaration.declared.parameters]
    return ", ".join(f"{name} = {values[name]}" for name in names)


def caching(declaration: Declaration) -> dict[str, bool]:
    """Step -> whether it may take the result of an earlier run."""
    return {row.step: row.step.rsplit("/", 1)[-1] in declaration.cached for row in declaration.steps}


def warnings(declaration: Declaration, now: datetime) -> list[str]:
    """What is in doubt about its times, and which settings do not count."""
    cron = declaration.cron
    texts = [_change(change, cron) for change in _first_of_each_day(cron.clock_changes(now))]
    if texts:
        texts.append("What Vertex AI does then is not documented. A time outside of the change is safe, or UTC.")
    if cron.days_differ:
        texts.append(
            f"{cron.expression} narrows day and weekday, one of them from *: crons differ in whether both must fit. "
            "List the days instead."
        )
    return [*texts, *declaration.notes]


def as_json(declaration: Declaration, now: datetime, outlook: Outlook | None = None) -> dict[str, Any]:
    """The forecast for --json; with an outlook also what each run would do."""
    run, month = cost_bound.most_usd(declaration.steps), per_month(declaration, now)
    unpriced, coming = cost_bound.unpriced(declaration.steps), runs(declaration, now)
    return {
        "cron": str(declaration.cron),
        "runs": [
            {
                "local": time.isoformat(),
                "utc": f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
                **({"would": outlook.as_json(time, before)} if outlook else {}),
            }
            for before, time in zip([None, *coming], coming, strict=False)
        ],
        **({"last_good": outlook.run or None, "not_known": outlook.unknown or None} if outlook else {}),
        **({"last_runs": outlook.last.as_json()} if outlook and outlook.last else {}),
        "warnings": warnings(declaration, now),
        "runs_per_month": round(month, 1),
        "max_usd_per_run": None if unpriced else round(run, 2),
        "max_usd_per_month": None if unpriced else round(run * month, 2),
        "max_usd_of_priced_steps": round(run, 2),
        "unpriced": unpriced,
        "price_dates": cost_bound.price_dates(declaration.steps),
        "cached": caching(declaration),
    }


def _change(change: ClockChange, cron: Cron) -> str:
    day, at = f"{change.local:%a %Y-%m-%d}", f"{change.local:%H:%M}"
    clocks = f"the clocks of {cron.time_zone} go from {change.before:%H:%M} to {change.after:%H:%M}"
    shown = " and ".join(f"{run:%H:%M %Z}" for run in change.runs)
    counted = f"counted as {'a run' if len(change.runs) == 1 else 'runs'} at {shown}" if shown else "counted as no run"
    return f"{day}: {clocks}; {at} {'does not exist' if change.missing else 'comes twice'}, {counted}."


def _first_of_each_day(changes: Sequence[ClockChange]) -> list[ClockChange]:
    days: dict[date, ClockChange] = {}
    for change in changes:
        days.setdefault(change.local.date(), change)
    return list(days.values())
