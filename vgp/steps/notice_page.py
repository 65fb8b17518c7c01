"""A summary as a page of Markdown, which the console shows beside the run; text of others stays text."""

import re

from vgp.base.text.figures import took, usd
from vgp.base.text.printable import one_line, printable
from vgp.base.text.times import price_dates
from vgp.protocol.job_steps import Step
from vgp.protocol.summary import Summary

#: What Markdown or HTML in it would obey.
_MARKS = re.compile(r"([\\`*_{}\[\]()<>#+!|~&])")
#: Lines of an error.
_LINES = 30


def markdown(summary: Summary) -> str:
    """Headline, what the run says of itself, a row for each step, the error of what failed, and links."""
    parts = [f"# {_plain(summary.run) or 'This run'}: {summary.state}"]
    if summary.words != summary.state:
        parts.append(_plain(summary.words))
    if summary.steps:
        parts.append("\n".join(["| step | state | took | cost | made by |", "|---|---|---|---|---|", *_rows(summary)]))
    parts += [f"{dates[0].upper()}{dates[1:]}."] if (dates := price_dates(summary.price_dates)) else []
    parts += [f"{_plain(way.step)}: {_plain(way.words)}." for way in summary.ways]
    parts += [_error(step) for step in summary.failed if step.error]
    if summary.links:
        parts.append("\n".join(f"- {name}: <{link}>" for name, link in summary.links.items()))
    if summary.nothing_new and "report" in summary.links:
        parts.append(f"The report is that of {_plain(summary.since or 'the earlier run')}.")
    return "\n\n".join(parts) + "\n"


def _rows(summary: Summary) -> list[str]:
    rows = [
        [_plain(step.name), step.state, took(step.seconds), usd(summary.usd(step)), ""]
        if step.seconds is not None
        else [_plain(step.name), step.state, "", "", _plain(step.since)]
        for step in summary.steps
    ]
    seconds = "" if summary.seconds is None else took(summary.seconds)
    rows.append(["together", "", seconds, _cost(summary), ""])
    return [f"| {' | '.join(cells)} |" for cells in rows]


def _cost(summary: Summary) -> str:
    """An estimate by list prices."""
    if summary.unpriced and not summary.total_usd:
        return "no price"
    return f"{'at least ' if summary.unpriced else 'about '}{usd(summary.total_usd)}"


def _error(step: Step) -> str:
    lines = printable(step.error).strip().splitlines()
    return "\n".join([f"{_plain(step.name)} failed:", "", *(f"    {line}" for line in lines[:_LINES])])


def _plain(text: str) -> str:
    return _MARKS.sub(r"\\\1", one_line(text))
