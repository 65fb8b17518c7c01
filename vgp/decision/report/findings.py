"""What the report says of thresholds, columns, single rows and drift, as its page shows it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vgp.decision.report.data import ColumnSummary
from vgp.evaluation.amounts import number
from vgp.evaluation.drift import LARGE, MODERATE, ColumnDrift
from vgp.evaluation.record import Evaluation
from vgp.evaluation.thresholds import AtThreshold

#: Columns in the list of the most important ones, and of those that moved most.
MOST_IMPORTANT, MOST_SHIFTED = 20, 12


@dataclass(frozen=True)
class Bar:
    """A column and by how much the loss grows without it; the largest bar is 100 % wide."""

    column: str
    increase: str
    deviation: str
    width: float


@dataclass(frozen=True)
class Shift:
    """A column that moved, in words, with its distributions."""

    column: str
    index: str
    shift: str
    what: str
    summary: ColumnSummary | None


def bars(evaluation: Evaluation) -> list[Bar]:
    if not evaluation.importance or not evaluation.importance.columns:
        return []
    columns = evaluation.importance.columns[:MOST_IMPORTANT]
    most = max(columns[0].increase, 1e-12)
    return [
        Bar(
            c.column,
            f"{'+' * (c.increase > 0)}{number(c.increase, 3)}",
            number(c.deviation, 2),
            max(0.0, 100 * c.increase / most),
        )
        for c in columns
    ]


def shifts(evaluation: Evaluation, summaries: Sequence[ColumnSummary]) -> list[Shift]:
    """The columns that moved, the label first."""
    if not evaluation.drift:
        return []
    by_name = {summary.name: summary for summary in summaries}
    label = evaluation.drift.label
    moved = [*([label] if label and label.shift != "none" else []), *evaluation.drift.shifted[:MOST_SHIFTED]]
    withheld = evaluation.examples.withheld if evaluation.examples else ()
    return [
        Shift(
            c.column, f"{c.index:.2f}", c.shift, _what(c, withheld), by_name.get(c.column) if c is not label else None
        )
        for c in moved
    ]


def _what(column: ColumnDrift, withheld: Sequence[str]) -> str:
    """What moved beside the index: missing values, and values that are new."""
    before, after = column.missing
    told = [f"missing {before:.1%} before, {after:.1%} now"] if abs(after - before) >= 0.01 else []
    if column.unseen:
        names = "" if hidden(column.column, withheld) else f" ({', '.join(column.unseen_values)})"
        told.append(f"{column.unseen:.1%} of the rows have values that training never saw{names}")
    return "; ".join(told)


def hidden(column: str, withheld: Sequence[str]) -> bool:
    """Whether the task keeps the column's values out of reports."""
    return column in withheld


def steady(evaluation: Evaluation) -> str:
    """How many columns did not move, in words."""
    assert evaluation.drift
    rest = len(evaluation.drift.columns) - len(evaluation.drift.shifted)
    few = f"{len(evaluation.drift.shifted)} of {len(evaluation.drift.columns)} columns moved"
    return f"{few}; {rest} did not (below {MODERATE:g}, or within chance). From {LARGE:g} on a shift is large."


def rates(row: AtThreshold) -> Mapping[str, str]:
    """A row of the table of thresholds, by heading."""
    return {
        "precision": share(row.precision),
        "recall": share(row.recall),
        "false positive rate": share(row.false_positive_rate),
        "flagged": share(row.flagged),
        "F1": f"{row.f1:.3f}",
        "hits": f"{row.hits_per_1000:.0f}",
        "false alarms": f"{row.false_alarms_per_1000:.0f}",
        "missed": f"{row.missed_per_1000:.0f}",
    }


def share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
