"""Whether to train at all, and why, in one sentence."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import numpy as np

from training.config import TrainConfig
from training.data.manifest import Frozen
from training.errors import UserError
from training.evaluation import score
from training.evaluation.comparison import holm
from training.pins import store
from training.pins.documents import DataPins, Request
from training.pins.resolve import Resolved
from training.printable import listed
from training.registry.documents import Record
from training.retraining import live, look, policy, reigning, shift
from training.retraining.live import Live
from training.retraining.look import CannotLook, Look
from training.retraining.policy import Policy
from training.retraining.reigning import Reigning
from training.retraining.shift import Shift

Cause = Literal[
    "asked", "no champion", "changed", "nothing new", "new data", "age", "drift", "performance", "cannot look",
    "no change", "waits", "never",
]  # fmt: skip
#: Columns that a sentence names.
SHOWN = 3


class Findings(Frozen):
    """What a look at the new rows found."""

    #: What was looked at, in words; "" = nothing was.
    what: str = ""
    #: Rows that are new, and of these the sample that was compared.
    rows: int = 0
    sample: int = 0
    #: Why there is no look, or a part of it is missing.
    notes: tuple[str, ...] = ()
    shifts: tuple[Shift, ...] = ()
    live: Live | None = None

    @property
    def drifted(self) -> tuple[Shift, ...]:
        return tuple(shift for shift in self.shifts if shift.drifted)


class Verdict(Frozen):
    """The decision of one run."""

    train: bool
    cause: Cause
    #: One sentence.
    why: str
    findings: Findings = Findings()
    #: The champion's name, and when a model was trained last; "" = none.
    champion: str = ""
    last_trained: str = ""

    @property
    def outcome(self) -> str:
        """What the step returns, and the workflow's branch compares."""
        return "train" if self.train else "skip"

    @property
    def headline(self) -> str:
        return f"{'training' if self.train else 'nothing is trained'}: {self.why}"


def verdict(
    resolved: Resolved, request: Request, record: Record, rules: Policy, config: TrainConfig, *, run: str, now: datetime
) -> Verdict:
    """Decides for a run whose pins are resolved; reads of the data what a look takes, and no more.

    Raises:
        UserError: the new data cannot be prepared either: it lacks a column, or a key occurs twice.
    """
    if rules.force:
        return _told(True, "asked", "force is set.")
    if not resolved.champion:
        if rules.when == "never":
            return _told(False, "never", 'when = "never", and there is no champion to look after.')
        return _told(True, "no champion", "there is no champion yet.")
    try:
        champion = reigning.load(resolved.champion, record)
    except UserError as error:
        return _told(rules.when != "never", "changed", f"new rows cannot be held against the champion: {error}")
    last = reigning.last_trained(record, champion.version)
    decided = _decided(champion, last, store.load(resolved.data, DataPins), resolved, request, rules, config, run, now)
    known = {"champion": champion.name, "last_trained": f"{last:%Y-%m-%d}" if last else ""}
    return decided.model_copy(update=known)


def _decided(
    champion: Reigning, last: datetime | None, data: DataPins, resolved: Resolved, request: Request, rules: Policy,
    config: TrainConfig, run: str, now: datetime,
) -> Verdict:  # fmt: skip
    if rules.when == "always":
        return _told(True, "asked", 'when = "always".')
    tried = bool(last and champion.version and last > datetime.fromisoformat(champion.version.created))
    waits = bool(rules.wait and last and not policy.over(rules.wait, last, now))
    other = reigning.changed(champion, request.task, request.task_options, request.data, config)
    if other and rules.when != "never" and not (tried and waits):
        return _told(True, "changed", f"{other}.")
    if not other and reigning.same_data(champion.data, data):
        return _told(False, "nothing new", f"no data is new since {champion.name} was trained.")
    if rules.looks:
        findings = look_at(champion, resolved.data, request.task, rules, run)
    else:
        findings = Findings()
    if rules.when == "never":
        return _told(False, "never", f'when = "never". {seen(findings)}', findings)
    return _by_findings(champion, last, waits, findings, rules, now)


def _by_findings(
    champion: Reigning, last: datetime | None, waits: bool, findings: Findings, rules: Policy, now: datetime
) -> Verdict:
    if waits:
        assert rules.wait and last
        day = policy.until(rules.wait, last)
        words = f"a model was trained on {last:%Y-%m-%d}, and the next waits until {day} (wait = {policy.spoken(rules.wait)})."
        return _told(False, "waits", f"{words} {seen(findings)}".strip(), findings)
    if rules.when == "new data":
        return _told(True, "new data", f"data is new since {champion.name} was trained.")
    if findings.drifted:
        return _told(True, "drift", drift_words(findings.drifted), findings)
    if findings.live and findings.live.worse:
        return _told(True, "performance", loss_words(findings.live), findings)
    if rules.retrain_every and (last is None or policy.over(rules.retrain_every, last, now)):
        since = f"the last training was on {last:%Y-%m-%d}" if last else "nothing tells when the champion was trained"
        return _told(True, "age", f"{since}, and retrain_every is {policy.spoken(rules.retrain_every)}.", findings)
    if not findings.what:
        return _told(True, "cannot look", f"the new data cannot be sampled: {'; '.join(findings.notes)}.", findings)
    return _told(False, "no change", seen(findings), findings)


def look_at(champion: Reigning, pins: str, task: str, rules: Policy, run: str) -> Findings:
    """The new rows against the champion's training data, and the champion on them."""
    trained = champion.trained_on
    try:
        new = look.read(
            pins, task, after=trained[-1][1] - 1 if trained else None, most_days=rules.look_days,
            known=reigning.known_files(champion.data), run=run,
        )  # fmt: skip
    except CannotLook as reason:
        return Findings(notes=(str(reason),))
    shifts, notes = _shifts(champion, new)
    rows = _live(champion, new, notes)
    found = Findings(
        what=new.what, rows=new.rows, sample=new.columns.num_rows, notes=tuple(notes), shifts=shifts, live=rows
    )
    return judged(found, rules)


def judged(findings: Findings, rules: Policy) -> Findings:
    """The findings with what they come to: all columns and the loss are one family of tests (Holm)."""
    tests = [one.p_value for one in findings.shifts] + ([findings.live.p_value] if findings.live else [])
    adjusted = holm(tests) if tests else []
    shifts = shift.judged(findings.shifts, adjusted, rules.drift_threshold, rules.level)
    rows = findings.live
    if rows:
        worse = adjusted[-1] <= rules.level and rows.rise >= rules.loss_rise
        rows = rows.model_copy(update={"worse": worse})
    return findings.model_copy(update={"shifts": shifts, "live": rows})


def _shifts(champion: Reigning, new: Look) -> tuple[tuple[Shift, ...], list[str]]:
    days, notes = new.days, list[str]()
    seen_days = len(np.unique(days)) if days is not None else 0
    if days is not None and seen_days < shift.FEWEST_DAYS:
        return (), [f"drift is told from {shift.FEWEST_DAYS} days on, and {seen_days} are new"]
    columns = [
        c for c in champion.card.columns if c.kind in ("number", "category") and c.name in new.columns.column_names
    ]
    old = [column.name for column in columns if not shift.is_comparable(column)]
    if old:
        notes.append(f"the champion's card does not say how {listed(old)} were spread: an older version made it")
    trained = sum(end - start for start, end in champion.trained_on) - len(
        champion.card.statistics.get("validation_days", ())
    )
    compared = []
    for column in columns:
        if shift.is_comparable(column):
            values = live.codes(column, new.columns) if column.values else live.numbers(new.columns[column.name])
            found = shift.of_values(column, values, days, trained)
            if column.values:
                part, texts = shift.unseen(column, new.columns[column.name])
                found = found.model_copy(update={"unseen": part, "unseen_values": texts})
            compared.append(found)
    label, known = new.task.label, ~np.isnan(new.labels)
    for column in champion.card.columns:
        is_label = column.name == label and column.kind == "label"
        enough = days is None or len(np.unique(days[known])) >= shift.FEWEST_DAYS
        if is_label and shift.is_comparable(column) and known.any() and enough:
            labels = new.labels[known] if column.tally else new.labels[known].astype(np.int64)
            compared.append(shift.of_values(column, labels, None if days is None else days[known], trained))
    return tuple(compared), notes


def _live(champion: Reigning, new: Look, notes: list[str]) -> Live | None:
    tested, evaluated = champion.tested_on, champion.evaluated
    if new.days is None or not tested:
        notes.append("the champion's loss on new rows is not told: rows have no day")
        return None
    later = new.days >= tested[-1][1]
    known = later & ~np.isnan(new.labels)
    if evaluated is None:
        notes.append("the champion's loss on new rows is not told: nothing says what its evaluation found")
        return None
    if not known.any():
        notes.append("the champion's loss on new rows is not told: no row with a label is newer than its evaluation")
        return None
    model = score.load(champion.uri, champion.card.manifest())
    columns = new.columns.filter(live.mask(known))
    losses = live.losses_of(model, new.task, columns, new.labels[known])
    found = live.live(
        losses, new.days[known], int((later & ~known).sum()), evaluated, sum(end - start for start, end in tested)
    )
    if found is None:
        notes.append(f"the champion's loss on new rows is told from {live.FEWEST_DAYS} days with labels on")
    return found


def drift_words(drifted: Sequence[Shift]) -> str:
    """`dest and 2 more columns drifted: dest by a stability index of 0.31 (0.02 by chance, p = 0.0004).`"""
    first, more = drifted[0], len(drifted) - 1
    others = f" and {more} more column{'s' * (more > 1)}" if more else ""
    return (
        f"{first.column}{others} drifted: {first.column} by a stability index of {first.index:.2f}, where "
        f"{first.expected:.2g} is chance (p = {first.adjusted:.2g} over all columns)."
    )


def loss_words(rows: Live) -> str:
    return (
        f"the champion's loss on {rows.rows:,} new rows of {rows.days} days is {rows.loss:.4f}, {rows.rise:.0%} above the "
        f"{rows.evaluated:.4f} of its evaluation (p = {rows.p_value:.2g})."
    )


def seen(findings: Findings) -> str:
    """What was seen, in a sentence; "" if nothing was looked at."""
    if not findings.what:
        return f"Not looked at: {'; '.join(findings.notes)}." if findings.notes else ""
    words = []
    if findings.drifted:
        words.append(drift_words(findings.drifted).removesuffix("."))
    elif findings.shifts:
        most = max(findings.shifts, key=lambda one: one.index)
        words.append(
            f"no column drifted in {findings.what}, {most.column} the most with a stability index of {most.index:.2f}"
        )
    if findings.live:
        rise = findings.live
        words.append(f"the champion's loss is {rise.loss:.4f} after {rise.evaluated:.4f}")
    return f"{'; '.join(words or findings.notes)}."


def _told(train: bool, cause: Cause, why: str, findings: Findings | None = None) -> Verdict:
    return Verdict(train=train, cause=cause, why=why.strip(), findings=findings or Findings())
