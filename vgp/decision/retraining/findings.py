"""Findings on new rows: columns that drifted from the champion's training data, and the champion's loss.

A one-sided t test compares the mean loss on new rows with that of the evaluation, with a standard error that is robust
to days (Cameron & Miller 2015, https://doi.org/10.3368/jhr.50.2.317); the evaluation's error is scaled from the new
days' by the number of days. Rows without a label yet are counted and left out.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import special

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data.tabular import TabularTask
from vgp.decision.retraining import look, reigning, shift
from vgp.decision.retraining.look import CannotLook, Look
from vgp.decision.retraining.policy import Policy
from vgp.decision.retraining.reigning import Reigning
from vgp.decision.retraining.shift import Shift
from vgp.evaluation import importance
from vgp.evaluation.comparison import holm
from vgp.protocol.manifest import Column, Frozen

if TYPE_CHECKING:
    from vgp.evaluation.score import TrainedModel

#: Fewer days give no estimate of how days differ.
FEWEST_DAYS = 5


class Live(Frozen):
    """The champion's loss on labelled rows that are newer than its evaluation."""

    rows: int
    days: int
    #: Rows of these days without a label yet.
    unlabelled: int
    loss: float
    #: Mean loss in its evaluation.
    evaluated: float
    #: Standard error of the difference.
    error: float
    #: Probability of this rise or a larger one if nothing has changed.
    p_value: float
    worse: bool = False

    @property
    def rise(self) -> float:
        return self.loss / self.evaluated - 1 if self.evaluated > 0 else 0.0


class Findings(Frozen):
    """The findings on the new rows."""

    #: A description of the sample; "" if no rows were read.
    what: str = ""
    #: Number of new rows, and of rows in the sample.
    rows: int = 0
    sample: int = 0
    #: Reasons why findings are missing.
    notes: tuple[str, ...] = ()
    shifts: tuple[Shift, ...] = ()
    live: Live | None = None

    @property
    def drifted(self) -> tuple[Shift, ...]:
        return tuple(shift for shift in self.shifts if shift.drifted)


def look_at(champion: Reigning, pins: str, task: str, rules: Policy, run: str) -> Findings:
    """Compares the new rows with the champion's training data, and scores the champion on them."""
    trained = champion.trained_on
    try:
        new = look.read(
            pins, task, after=trained[-1][1] - 1 if trained else None, most_days=rules.look_days,
            known=reigning.known_files(champion.data), run=run,
        )  # fmt: skip
    except CannotLook as reason:
        return Findings(notes=(str(reason),))
    shifts, notes = _test_shifts(champion, new)
    rows = _score_champion(champion, new, notes)
    found = Findings(
        what=new.what, rows=new.rows, sample=new.columns.num_rows, notes=tuple(notes), shifts=shifts, live=rows
    )
    return judge_findings(found, rules)


def judge_findings(findings: Findings, rules: Policy) -> Findings:
    """Returns the findings with their verdicts: half of the error goes to the champion's loss, half to all columns
    (Holm)."""
    adjusted = holm([one.p_value for one in findings.shifts]) if findings.shifts else []
    shifts = shift.judge_shifts(findings.shifts, adjusted, rules.drift_threshold, rules.level / 2)
    rows = findings.live
    if rows:
        worse = rows.p_value <= rules.level / 2 and rows.rise >= rules.loss_rise
        rows = rows.model_copy(update={"worse": worse})
    return findings.model_copy(update={"shifts": shifts, "live": rows})


def _test_shifts(champion: Reigning, new: Look) -> tuple[tuple[Shift, ...], list[str]]:
    count = len(np.unique(new.days)) if new.days is not None else shift.FEWEST_DAYS
    if count < shift.FEWEST_DAYS:
        return (), [f"drift needs {shift.FEWEST_DAYS} new days; there are {count}"]
    there = [
        c for c in champion.card.columns if c.kind in ("number", "category") and c.name in new.columns.column_names
    ]
    compared: list[Shift | None] = [
        _test_feature(champion, new, column) for column in there if shift.is_comparable(column)
    ]
    compared += [_test_label(champion, new, column) for column in champion.card.columns if column.kind == "label"]
    old = [column.name for column in there if not shift.is_comparable(column)]
    notes = [f"the champion's card, written by an older version, has no distribution of {join_names(old)}"] * bool(old)
    return tuple(found for found in compared if found), notes


def _test_feature(champion: Reigning, new: Look, column: Column) -> Shift:
    values = codes(column, new.columns) if column.values else numbers(new.columns[column.name])
    found = shift.test_values(column, values, new.days, champion.days_trained)
    if not column.values:
        return found
    part, texts = shift.unseen(column, new.columns[column.name])
    return found.model_copy(update={"unseen": part, "unseen_values": texts})


def _test_label(champion: Reigning, new: Look, column: Column) -> Shift | None:
    """Returns None if too few days have labels yet."""
    known = ~np.isnan(new.labels)
    days = None if new.days is None else new.days[known]
    if (
        not shift.is_comparable(column)
        or not known.any()
        or (days is not None and len(np.unique(days)) < shift.FEWEST_DAYS)
    ):
        return None
    labels = new.labels[known] if column.tally else new.labels[known].astype(np.int64)
    return shift.test_values(column, labels, days, champion.days_trained)


def _score_champion(champion: Reigning, new: Look, notes: list[str]) -> Live | None:
    tested, evaluated = champion.tested_on, champion.evaluated
    if new.days is None or not tested or evaluated is None:
        reason = "its evaluation is unknown" if evaluated is None else "rows have no day"
        notes.append(f"the champion's loss on new rows is unknown: {reason}")
        return None
    later = new.days >= tested[-1][1]
    known = later & ~np.isnan(new.labels)
    if len(np.unique(new.days[known])) < FEWEST_DAYS:
        notes.append(f"the champion's loss needs {FEWEST_DAYS} days with labels after its evaluation")
        return None
    from vgp.evaluation import score  # imports torch

    model = score.load(champion.uri, champion.card.manifest())
    losses = losses_of(model, new.task, new.columns.filter(pa.array(known)), new.labels[known])
    test_days = sum(end - start for start, end in tested)
    return live(losses, new.days[known], int((later & ~known).sum()), evaluated, test_days)


def drift_words(drifted: Sequence[Shift]) -> str:
    """Returns a sentence such as `dest and 2 more columns drifted, dest the most, by a stability index of 0.31 ...`."""
    first, more = drifted[0], len(drifted) - 1
    others = f" and {more} more column{'s' * (more > 1)}" if more else ""
    most = f", {first.column} the most," if more else ""
    return f"{first.column}{others} drifted{most} by a stability index of {_format_index(first)}."


def _format_index(one: Shift) -> str:
    """Formats the index with the value expected by chance, which is high for few or differing days."""
    return f"{one.index:.2f} ({one.expected:.2g} by chance; {_format_p_value(one.adjusted)} over all columns)"


def _format_p_value(value: float) -> str:
    """Formats a p-value."""
    return "p < 1e-12" if value < 1e-12 else f"p = {value:.2g}"


def loss_words(rows: Live) -> str:
    return (
        f"the champion's loss on {rows.rows:,} new rows of {rows.days} days is {rows.loss:.4f}, {rows.rise:.0%} above "
        f"the {rows.evaluated:.4f} of its evaluation ({_format_p_value(rows.p_value)})."
    )


def seen(findings: Findings) -> str:
    """Returns the findings as a sentence; "" without findings and notes."""
    if not findings.what:
        return f"New rows were not compared: {'; '.join(findings.notes)}." if findings.notes else ""
    words = []
    if findings.drifted:
        words.append(drift_words(findings.drifted).removesuffix("."))
    elif findings.shifts:
        most = max(findings.shifts, key=lambda one: one.index)
        index = f"{most.column} the most by a stability index of {_format_index(most)}"
        words.append(f"no column drifted in {findings.what}, {index}")
    if rows := findings.live:
        steady = f"the champion's loss is {rows.loss:.4f} after {rows.evaluated:.4f}"
        words.append(loss_words(rows).removesuffix(".") if rows.worse else steady)
    return f"{'; '.join(words or findings.notes)}."


# ---- the champion's loss on rows that are newer than its evaluation


def live(
    losses: NDArray[np.float64], days: NDArray[np.int64], unlabelled: int, evaluated: float, test_days: int
) -> Live:
    """Tests the losses of N labelled rows, float64 (N,), of at least `FEWEST_DAYS` days, against the evaluation.

    Args:
        evaluated: Mean loss in the evaluation, over `test_days` days.
    """
    _, numbers = np.unique(days, return_inverse=True)
    count = int(numbers.max()) + 1
    mean = float(losses.mean())
    totals = np.bincount(numbers, losses - mean)
    variance = count / (count - 1) * float(np.sum(totals**2)) / len(losses) ** 2
    error = float(np.sqrt(variance * (1 + count / max(1, test_days))))
    p_value = float(special.stdtr(count - 1, (evaluated - mean) / error)) if error > 0 else float(mean <= evaluated)
    return Live(rows=len(losses), days=count, unlabelled=unlabelled, loss=mean, evaluated=evaluated, error=error,
                p_value=p_value)  # fmt: skip


def losses_of(
    model: "TrainedModel", task: TabularTask, columns: pa.Table, labels: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Returns the champion's losses on labelled rows, float64 (N,)."""
    arrays, label = encode_columns(model.card.columns, columns), labels if task.regression else labels.astype(np.int64)
    unknown = np.zeros(len(label), np.int64)  # ids do not influence predictions
    arrays = {column.name: unknown for column in model.card.columns} | arrays | {task.label: label}
    parts = []
    for start in range(0, len(label), task.batch_rows):
        batch = {name: values[start : start + task.batch_rows] for name, values in arrays.items()}
        parts.append(np.asarray(importance.row_losses(task, model(batch), batch), np.float64))
    return np.concatenate(parts)


def encode_columns(learned: tuple[Column, ...], columns: pa.Table) -> dict[str, NDArray[Any]]:
    """Encodes the columns with the champion's codes; unknown text becomes 0.

    Raises:
        UserError: the data lacks a column.
    """
    taken = [column for column in learned if column.kind in ("number", "category", "vector")]
    if lacking := [column.name for column in taken if column.name not in columns.column_names]:
        raise UserError(f"the champion needs {join_names(lacking)}, which the data lacks.")
    return {column.name: np.maximum(codes(column, columns), 0).astype(np.int32) if column.values
            else numbers(columns[column.name]) for column in taken}  # fmt: skip


def codes(column: Column, columns: pa.Table) -> NDArray[np.int64]:
    """Returns the champion's code of each text; -1 for unknown text."""
    known = {value: code for code, value in enumerate(column.values)}
    texts = columns[column.name].combine_chunks().fill_null("").dictionary_encode()
    own = np.array([known.get(text, -1) for text in texts.dictionary.to_pylist()] or [0], np.int64)
    return np.asarray(own[np.asarray(texts.indices)])


def numbers(column: pa.ChunkedArray) -> NDArray[np.float32]:
    """Converts a column to float32, NaN where missing."""
    return np.array(column.combine_chunks().cast(pa.float32()).fill_null(np.nan))
