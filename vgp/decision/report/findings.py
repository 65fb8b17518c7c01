"""The report's tables of thresholds, columns, splits and drift, as the page shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from vgp.base.text.figures import format_significant
from vgp.data.rows import read_sample, read_shard
from vgp.evaluation.drift import LARGE, MODERATE, ColumnDrift
from vgp.evaluation.record import Evaluation
from vgp.evaluation.thresholds import AtThreshold
from vgp.protocol.manifest import Column, Manifest, ShardFile

# ---- the prepared data: exact figures from the manifest, distributions from a bounded sample


#: Rows of each split that histograms use, so that the cost of a report does not depend on the amount of data.
SAMPLE_ROWS = 50_000
BARS = 24
MOST_SHOWN_VALUES = 3


@dataclass(frozen=True)
class SplitSummary:
    """A split with its rows and the share of each class, () without a label column."""

    name: str
    rows: int
    class_shares: tuple[float, ...]


@dataclass(frozen=True)
class ColumnSummary:
    """A column in a few words, with histograms of two splits in the same bins, scaled to the tallest bar."""

    name: str
    kind: str
    #: Share of missing elements in the train split.
    missing: float
    text: str
    train_bars: tuple[float, ...]
    test_bars: tuple[float, ...]

    def withheld(self) -> "ColumnSummary":
        """Returns the summary without values, for a column that the task keeps out of reports."""
        return replace(self, text="values withheld")


def split_summaries(directory: str | Path, manifest: Manifest) -> list[SplitSummary]:
    label = next((column for column in manifest.columns if column.kind == "label"), None)
    order = {"train": 0, "validation": 1, "test": 2}
    names = sorted(manifest.splits, key=lambda name: order.get(name, len(order)))
    return [
        SplitSummary(name, manifest.rows(name), _count_class_shares(Path(directory), manifest.splits[name], label))
        for name in names
    ]


def column_summaries(directory: str | Path, manifest: Manifest, split: str) -> list[ColumnSummary]:
    """Returns a summary of each column that a model may learn from; compares `split` with the train split."""
    shown = [column for column in manifest.columns if column.kind in ("number", "category", "vector")]
    train = read_sample(directory, manifest.splits.get("train", ()), shown, SAMPLE_ROWS)
    test = read_sample(directory, manifest.splits.get(split, ()), shown, SAMPLE_ROWS)
    return [_summarize_column(column, train.get(column.name), test.get(column.name)) for column in shown]


def _count_class_shares(folder: Path, files: tuple[ShardFile, ...], label: Column | None) -> tuple[float, ...]:
    if label is None or not label.values or not files:
        return ()
    counts = np.zeros(len(label.values), np.int64)
    for file in files:
        codes = read_shard(folder, file, [label], verify=False)[label.name].to_numpy()
        counts += np.bincount(codes, minlength=len(counts))
    return tuple((counts / max(1, counts.sum())).tolist())


def _summarize_column(column: Column, train: np.ndarray | None, test: np.ndarray | None) -> ColumnSummary:
    bars = _category_bars if column.kind == "category" else _number_bars
    trained, tested = bars(column, train, test)
    total = column.count + column.missing
    kind = f"vector of {column.width}" if column.kind == "vector" else column.kind
    return ColumnSummary(
        column.name, kind, column.missing / total if total else 0.0, _describe_column(column), trained, tested
    )


def _describe_column(column: Column) -> str:
    if column.kind != "category":
        least, most = format_significant(column.minimum), format_significant(column.maximum)
        if column.minimum == column.maximum:  # its `std` is 1, since rows are divided by it
            return f"always {most}" if column.count else "no values"
        return f"{format_significant(column.mean)} ± {format_significant(column.std, 3)}, from {least} to {most}"
    known = [(count, value) for count, value in zip(column.counts, column.values, strict=True) if value and count]
    top = sorted(known, key=lambda pair: (-pair[0], pair[1]))[:MOST_SHOWN_VALUES]
    total = max(1, sum(column.counts))
    shown = ", ".join(f"{value} {_format_percent(count / total)}" for count, value in top)
    return f"{len(known):,} value{'s' * (len(known) != 1)}: {shown}" + (", ..." if len(known) > len(top) else "")


def _format_percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.005 else "<1%"


def _category_bars(
    column: Column, train: np.ndarray | None, test: np.ndarray | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the shares of the most frequent values, in descending order of the train split."""
    frequent = np.argsort(-np.asarray(column.counts), kind="stable")[:BARS]
    frequent = frequent[np.asarray(column.counts)[frequent] > 0]
    return _scale_counts(
        *(
            None if codes is None else np.bincount(codes, minlength=len(column.values))[frequent] / len(codes)
            for codes in (train, test)
        )
    )


def _number_bars(
    column: Column, train: np.ndarray | None, test: np.ndarray | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the shares of bins of equal width over the middle 99 % of the train split; the outer bins are open."""
    if train is None or not np.isfinite(train).any():
        return (), ()
    low, high = np.nanquantile(train, [0.005, 0.995])
    edges = np.linspace(low, high if high > low else low + 1, BARS + 1)
    known = [None if v is None else np.clip(v[np.isfinite(v)], edges[0], edges[-1]) for v in (train, test)]
    return _scale_counts(*(None if v is None else np.histogram(v, edges)[0] / max(1, len(v)) for v in known))


def _scale_counts(train: np.ndarray | None, test: np.ndarray | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    tallest = max((float(shares.max(initial=0)) for shares in (train, test) if shares is not None), default=0.0)
    bars = [() if s is None or not tallest else tuple((s / tallest).tolist()) for s in (train, test)]
    return bars[0], bars[1]


#: Columns in the list of the most important ones, and of those that moved most.
MOST_IMPORTANT, MOST_SHIFTED = 20, 12


@dataclass(frozen=True)
class Bar:
    """The importance of a column: how much the loss grows without it. The largest bar is 100 % wide."""

    column: str
    increase: str
    deviation: str
    width: float


@dataclass(frozen=True)
class Shift:
    """A column whose distribution has shifted, with its summary."""

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
            f"{'+' * (c.increase > 0)}{format_significant(c.increase, 3)}",
            format_significant(c.deviation, 2),
            max(0.0, 100 * c.increase / most),
        )
        for c in columns
    ]


def shifts(evaluation: Evaluation, summaries: Sequence[ColumnSummary]) -> list[Shift]:
    """Returns the columns that have shifted, the label first."""
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
    """Returns a change in missing values, and the share of unseen values, in words."""
    before, after = column.missing
    changes = [f"missing {before:.1%} before, {after:.1%} now"] if abs(after - before) >= 0.01 else []
    if column.unseen:
        names = "" if is_private(column.column, withheld) else f" ({', '.join(column.unseen_values)})"
        changes.append(f"{column.unseen:.1%} of the rows have values that the training data lacks{names}")
    return "; ".join(changes)


def is_private(column: str, withheld: Sequence[str]) -> bool:
    """Whether the task keeps the column's values out of reports."""
    return column in withheld


def steady(evaluation: Evaluation) -> str:
    """Returns how many columns have shifted, in words."""
    assert evaluation.drift
    rest = len(evaluation.drift.columns) - len(evaluation.drift.shifted)
    few = f"{len(evaluation.drift.shifted)} of {len(evaluation.drift.columns)} columns moved"
    return f"{few}; {rest} did not (below {MODERATE:g}, or within chance). From {LARGE:g} on a shift is large."


def rates(row: AtThreshold) -> Mapping[str, str]:
    """Returns a row of the table of thresholds, by heading."""
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
