"""What `vgp doctor` tells a person, on 80 columns."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Group
from rich.text import Text

from vgp.base.text.figures import plural
from vgp.base.text.printable import one_line
from vgp.vertex.schedules.nights import CANCELLED, FAILED, MISSED, NOTHING_NEW, OPEN, RAN, WAITING, Night
from vgp.vertex.schedules.schedule_doctor import Diagnosis

#: Nights that are told in full, of those that are wrong and of those that a later one made good.
_TOLD, _MADE_GOOD = 5, 3
#: Characters of an error.
_ERROR = 240
_WORDS = {
    RAN: "ran", NOTHING_NEW: "with nothing new", OPEN: "going on", WAITING: "waiting", FAILED: "failed",
    CANCELLED: "cancelled", MISSED: "missed",
}  # fmt: skip


def page(diagnoses: Sequence[Diagnosis], since: str) -> Group:
    """Every schedule, the wrong ones last, where a person looks first; and what it comes to."""
    ordered = sorted(diagnoses, key=lambda one: not one.ok)
    parts = [line for one in ordered for line in [*_schedule(one, since), Text()]]
    return Group(*parts, Text(summary(diagnoses), "bold"))


def summary(diagnoses: Sequence[Diagnosis]) -> str:
    """`1 schedule is fine, 1 is not: nightly`."""
    if not diagnoses:
        return "There are no schedules: write [schedules.NAME] into pipelines.toml, or choose --env."
    wrong = [one_line(one.name) for one in diagnoses if not one.ok]
    if not wrong:
        return "1 schedule, and it is fine" if len(diagnoses) == 1 else f"{len(diagnoses)} schedules, all fine"
    return f"{len(wrong)} of {plural(len(diagnoses), 'schedule')} {'needs' if len(wrong) == 1 else 'need'} you: " + (
        ", ".join(wrong)
    )


def _schedule(one: Diagnosis, since: str) -> Iterator[Text]:
    mark = Text("✓", "green") if one.ok else Text("✗", "bold red")
    where = f" ({one_line(one.environment)})" if one.environment else ""
    when = f"  {one_line(one.cron.expression)} {one_line(one.cron.time_zone)}"
    yield Text.assemble(mark, " ", (one_line(one.name), "bold"), (where, "dim"), "  ", one.state, (when, "dim"))
    for text in one.problems:
        yield Text(f"  {one_line(text)}", "red")
    for text in one.notes:
        yield Text(f"  {one_line(text)}", "yellow")
    if one.schedule:
        yield from _facts(one, since)
    for night in one.bad[-_TOLD:]:
        yield from _night(one, night)
    yield from _more(len(one.bad) - _TOLD, "of these")
    for night in one.made_good[-_MADE_GOOD:]:
        yield Text(f"  {_what(one, night)}; a later night went well", "dim")
    yield from _more(len(one.made_good) - _MADE_GOOD, "that later nights made good")


def _facts(one: Diagnosis, since: str) -> Iterator[Text]:
    good = one.last_good
    run = f"  {good.run.id}" if good and good.run else ""
    yield _fact("last good", f"{_when(one, good.time)}{run}" if good else f"none since {since}")
    if one.next_run:
        yield _fact("next", _when(one, one.next_run))
    counts = [f"{count} {_WORDS.get(kind, kind)}" for kind, count in sorted(one.counts.items(), key=_order)]
    yield _fact("nights", f"{len(one.nights)} since {since}" + (f": {', '.join(counts)}" if counts else ""))


def _order(count: tuple[str, int]) -> int:
    return [*_WORDS, count[0]].index(count[0])


def _night(one: Diagnosis, night: Night) -> Iterator[Text]:
    yield Text(f"  {_what(one, night)}", "red")
    yield from (Text(f"    {one_line(line)}") for line in one.remedy(night))


def _what(one: Diagnosis, night: Night) -> str:
    """`failed  Fri 2026-11-20 02:30 CET  train: CUDA out of memory`."""
    steps = "; ".join(f"{step.name}: {step.error or 'Google gives no reason'}" for step in night.failed)
    why = steps or (night.run.error if night.run else night.why)
    return f"{_WORDS.get(night.kind, night.kind)}  {_when(one, night.time)}  {one_line(why, _ERROR)}".rstrip()


def _fact(name: str, text: str) -> Text:
    return Text.assemble((f"  {name:<10}", "dim"), one_line(text))


def _more(count: int, what: str) -> Iterator[Text]:
    if count > 0:
        yield Text(f"  and {count} more {what}: --json has them", "dim")


def _when(one: Diagnosis, time: datetime) -> str:
    return f"{one.local(time):%a %Y-%m-%d %H:%M %Z}"
