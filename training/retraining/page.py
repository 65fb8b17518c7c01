"""The decision of a run as one page without scripts: the reason, what was looked at, and the table of columns."""

from html import escape

from training.retraining.findings import Findings
from training.retraining.shift import Shift
from training.retraining.verdict import Verdict

_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#1a1a1a}"
    "table{border-collapse:collapse;margin:1em 0}"
    "td,th{padding:.25em .8em;border-bottom:1px solid #ddd;text-align:right}"
    "td:first-child,th:first-child{text-align:left}tr.drifted td{background:#fff1e0}p.why{font-size:1.2em}"
)
_HEAD = ("column", "stability index", "by chance", "p", "missing then", "now", "never seen", "")


def html(made: Verdict) -> str:
    """The page, self-contained."""
    found = made.findings
    parts = [
        f"<h1>{'Trains' if made.train else 'Does not train'}</h1>",
        f'<p class="why">{escape(made.why)}</p>',
        *(f"<p>{escape(line)}</p>" for line in told(made)),
        _table(found),
        *([f"<ul>{''.join(f'<li>{escape(note)}</li>' for note in found.notes)}</ul>"] if found.notes else []),
    ]
    title = "Retraining: " + ("train" if made.train else "skip")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"</head><body>{''.join(parts)}</body></html>\n"
    )


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
    head = "".join(f"<th>{escape(title)}</th>" for title in _HEAD)
    return f"<table><tr>{head}</tr>{''.join(map(_row, found.shifts))}</table>"


def _row(one: Shift) -> str:
    cells = [
        one.column, f"{one.index:.3f}", f"{one.expected:.3f}", f"{one.adjusted:.2g}", f"{one.missing[0]:.1%}",
        f"{one.missing[1]:.1%}", f"{one.unseen:.1%} {', '.join(one.unseen_values)}".strip() if one.unseen else "",
        "drifted" if one.drifted else "",
    ]  # fmt: skip
    mark = ' class="drifted"' if one.drifted else ""
    return f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
