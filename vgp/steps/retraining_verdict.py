"""Decides whether a run trains, with the reason as a sentence and as a page."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from html import escape
from typing import Literal

from vgp.base.exits import UserError
from vgp.decision.report import page
from vgp.decision.retraining import policy, reigning
from vgp.decision.retraining.findings import Findings, drift_words, look_at, loss_words, seen
from vgp.decision.retraining.policy import Policy
from vgp.decision.retraining.reigning import Reigning
from vgp.decision.retraining.shift import Shift
from vgp.protocol import pins as store
from vgp.protocol.manifest import Frozen
from vgp.protocol.pins import DataPins, Request
from vgp.registry.documents import Record
from vgp.steps.pins.resolve import Resolved
from vgp.train.train_config import TrainConfig

Cause = Literal[
    "asked", "no champion", "changed", "nothing new", "new data", "age", "drift", "performance", "cannot look",
    "no change", "waits", "never",
]  # fmt: skip


class Verdict(Frozen):
    """The decision whether one run trains."""

    train: bool
    cause: Cause
    #: Reason, one sentence.
    why: str
    findings: Findings = Findings()
    #: Name of the champion, and time of the last training; "" = none.
    champion: str = ""
    last_trained: str = ""

    @property
    def outcome(self) -> str:
        """Returns the step's output, which the workflow branches on."""
        return "train" if self.train else "skip"

    @property
    def headline(self) -> str:
        return f"{'training' if self.train else 'nothing is trained'}: {self.why}"


def verdict(
    resolved: Resolved, request: Request, record: Record, rules: Policy, config: TrainConfig, *, run: str, now: datetime
) -> Verdict:
    """Decides for a run with resolved pins; reads at most a sample of the data.

    Raises:
        UserError: the new data is invalid: it lacks a column, or a key occurs twice.
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
        return _told(rules.when != "never", "changed", f"new rows cannot be compared with the champion: {error}")
    return _Night(champion, resolved, request, record, rules, config, run, now).decided()


@dataclass(frozen=True)
class _Night:
    """The inputs of a decision on new data."""

    champion: Reigning
    resolved: Resolved
    request: Request
    record: Record
    rules: Policy
    config: TrainConfig
    run: str
    now: datetime

    @cached_property
    def last(self) -> datetime | None:
        return reigning.last_trained(self.record, self.champion.version)

    @property
    def waits(self) -> bool:
        """Whether the shortest interval between trainings has not passed."""
        rules = self.rules
        return bool(rules.wait and self.last and not policy.over(rules.wait, self.last, self.now))

    def decided(self) -> Verdict:
        known = {"champion": self.champion.name, "last_trained": f"{self.last:%Y-%m-%d}" if self.last else ""}
        return (self._before_looking() or self._by_looking()).model_copy(update=known)

    def _before_looking(self) -> Verdict | None:
        """Decides from pins and settings; None if the new rows must be sampled."""
        champion, request, rules = self.champion, self.request, self.rules
        other = reigning.changed(champion, request.task, request.task_options, request.data, self.config)
        # A challenger with the new settings may have been tested already and not promoted.
        tried = self.waits and reigning.tried_since(self.record, champion.version)
        if other and rules.when != "never" and not tried:
            return _told(True, "changed", f"{other}.")
        if not other and reigning.same_data(champion.data, store.load(self.resolved.data, DataPins)):
            return _told(False, "nothing new", f"no data is new since {champion.name} was trained.")
        return None

    def _by_looking(self) -> Verdict:
        rules, found = self.rules, Findings()
        if rules.looks:
            found = look_at(self.champion, self.resolved.data, self.request.task, rules, self.run)
        if rules.when == "never":
            return _told(False, "never", f'when = "never"; {seen(found)}', found)
        if rules.wait and self.last and self.waits:
            ends = policy.until(rules.wait, self.last)
            words = (
                f"a model was trained on {self.last:%Y-%m-%d}, and wait = {policy.spoken(rules.wait)} ends on {ends}"
            )
            return _told(False, "waits", f"{words}; {seen(found)}" if seen(found) else f"{words}.", found)
        if rules.when == "new data":
            return _told(True, "new data", f"data is new since {self.champion.name} was trained.")
        return self._by_findings(found)

    def _by_findings(self, found: Findings) -> Verdict:
        rules, last = self.rules, self.last
        if found.drifted:
            return _told(True, "drift", drift_words(found.drifted), found)
        if found.live and found.live.worse:
            return _told(True, "performance", loss_words(found.live), found)
        if rules.retrain_every and (last is None or policy.over(rules.retrain_every, last, self.now)):
            since = f"the last training was on {last:%Y-%m-%d}" if last else "nothing tells when a model was trained"
            return _told(True, "age", f"{since}, and retrain_every is {policy.spoken(rules.retrain_every)}.", found)
        if not found.what:
            return _told(True, "cannot look", f"the new data cannot be sampled: {'; '.join(found.notes)}.", found)
        return _told(False, "no change", seen(found), found)


def _told(train: bool, cause: Cause, why: str, findings: Findings | None = None) -> Verdict:
    return Verdict(train=train, cause=cause, why=why.strip(), findings=findings or Findings())


# ---- the page with the reason


_HEAD = ("column", "stability index", "by chance", "p", "missing then", "now", "never seen", "")


def html(made: Verdict) -> str:
    """Renders the page, self-contained."""
    found = made.findings
    notes = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
    parts = [
        f"<h1>{'Trains' if made.train else 'Does not train'}</h1>",
        f'<p class="lead">Why: {escape(made.why)}</p>',
        *(f"<p>{escape(line)}</p>" for line in explain_verdict(made)),
        _table(found),
        f'<ul class="sentences">{notes}</ul>' if notes else "",
    ]
    return page.document(f"Retraining: {'train' if made.train else 'skip'}", "".join(parts))


def explain_verdict(made: Verdict) -> list[str]:
    """Returns sentences about champion, rows and loss."""
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
