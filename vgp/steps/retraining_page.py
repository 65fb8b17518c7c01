"""The decision of a run as one page without scripts: the reason, what was looked at, and the table of columns."""

from html import escape

from vgp.decision.report import page
from vgp.decision.retraining.findings import Findings
from vgp.decision.retraining.shift import Shift
from vgp.steps.retraining_verdict import Verdict

_HEAD = ("column", "stability index", "by chance", "p", "missing then", "now", "never seen", "")


def html(made: Verdict) -> str:
    """The page, self-contained."""
    found = made.findings
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
    parts = [
        f"<h1>{'Trains' if made.train else 'Does not train'}</h1>",
        f'<p class="lead">Why: {escape(made.why)}</p>',
        *(f"<p>{escape(line)}</p>" for line in told(made)),
        _table(found),
        f'<ul class="sentences">{notes}</ul>' if notes else "",
    ]
    return page.document(f"Retraining: {'train' if made.train else 'skip'}", "".join(parts))


def told(made: Verdict) -> list[str]:
    """Sentences about champion, rows and loss."""
    found, lines = made.findings, list[str]()
    if made.champion:
        last = f" The last training was on {made.last_trained}." if made.last_trained else ""
        lines.append(f"Champion: {made.champion}.{last}")
    if found.what:
        part = "" if found.sample == found.rows else f", of which {found.sample:,} were compared"
        lines.append(f"Looked at: {found.what}, {found.rows:,} rows{part}.")
    if rows := found.live:
        late = f" {rows.unlabelled:,} rows of these days have no label, or none yet." if rows.unlabelled else ""
        lines.append(
            f"Champion's mean loss on {rows.rows:,} rows of {rows.days} days that came after its evaluation: "
            f"{rows.loss:.4f} (standard error of the difference {rows.error:.4f}); its evaluation found "
            f"{rows.evaluated:.4f}. p = {rows.p_value:.2g}.{late}"
        )
    return lines


def _table(found: Findings) -> str:
    if not found.shifts:
        return ""
    first, *others = (escape(title) for title in _HEAD)
    head = f'<th scope="col">{first}</th>' + "".join(f'<th class="number" scope="col">{title}</th>' for title in others)
    rows = "".join(map(_row, found.shifts))
    drawn = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="panel wide"><div class="scroll">{drawn}</div></div>'


def _row(one: Shift) -> str:
    cells = [
        f"{one.index:.3f}", f"{one.expected:.3f}", f"{one.adjusted:.2g}", f"{one.missing[0]:.1%}",
        f"{one.missing[1]:.1%}", f"{one.unseen:.1%} {', '.join(one.unseen_values)}".strip() if one.unseen else "",
        "drifted" if one.drifted else "",
    ]  # fmt: skip
    mark = ' class="chosen"' if one.drifted else ""
    told = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
    return f'<tr{mark}><th scope="row">{escape(one.column)}</th>{told}</tr>'
