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
        return _build_verdict(True, "asked", "force is set.")
    if not resolved.champion:
        if rules.when == "never":
            return _build_verdict(False, "never", 'when = "never", and there is no champion to look after.')
        return _build_verdict(True, "no champion", "there is no champion yet.")
    try:
        champion = reigning.load(resolved.champion, record)
    except UserError as error:
        return _build_verdict(
            rules.when != "never", "changed", f"new rows cannot be compared with the champion: {error}"
        )
    return _Night(champion, resolved, request, record, rules, config, run, now).decide()


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
        return reigning.find_last_training(self.record, self.champion.version)

    @property
    def waits(self) -> bool:
        """Whether the shortest interval between trainings has not passed."""
        rules = self.rules
        return bool(rules.wait and self.last and not policy.over(rules.wait, self.last, self.now))

    def decide(self) -> Verdict:
        facts = {"champion": self.champion.name, "last_trained": f"{self.last:%Y-%m-%d}" if self.last else ""}
        return (self._decide_by_pins() or self._decide_by_sample()).model_copy(update=facts)

    def _decide_by_pins(self) -> Verdict | None:
        """Decides from pins and settings; None if the new rows must be sampled."""
        champion, request, rules = self.champion, self.request, self.rules
        other = reigning.describe_change(champion, request.task, request.task_options, request.data, self.config)
        # A challenger with the new settings may have been tested already and not promoted.
        tried = self.waits and reigning.tried_since(self.record, champion.version)
        if other and rules.when != "never" and not tried:
            return _build_verdict(True, "changed", f"{other}.")
        if not other and reigning.has_same_data(champion.data, store.load(self.resolved.data, DataPins)):
            return _build_verdict(False, "nothing new", f"no data is new since {champion.name} was trained.")
        return None

    def _decide_by_sample(self) -> Verdict:
        rules, findings = self.rules, Findings()
        if rules.looks:
            findings = look_at(self.champion, self.resolved.data, self.request.task, rules, self.run)
        if rules.when == "never":
            return _build_verdict(False, "never", f'when = "never"; {seen(findings)}', findings)
        if rules.wait and self.last and self.waits:
            ends = policy.until(rules.wait, self.last)
            wait = policy.format_length(rules.wait)
            words = f"a model was trained on {self.last:%Y-%m-%d}, and wait = {wait} ends on {ends}"
            return _build_verdict(
                False, "waits", f"{words}; {seen(findings)}" if seen(findings) else f"{words}.", findings
            )
        if rules.when == "new data":
            return _build_verdict(True, "new data", f"data is new since {self.champion.name} was trained.")
        return self._decide_by_findings(findings)

    def _decide_by_findings(self, findings: Findings) -> Verdict:
        rules, last = self.rules, self.last
        if findings.drifted:
            return _build_verdict(True, "drift", drift_words(findings.drifted), findings)
        if findings.live and findings.live.worse:
            return _build_verdict(True, "performance", loss_words(findings.live), findings)
        if rules.retrain_every and (last is None or policy.over(rules.retrain_every, last, self.now)):
            age = f"the last training was on {last:%Y-%m-%d}" if last else "the time of the last training is unknown"
            return _build_verdict(
                True, "age", f"{age}, and retrain_every is {policy.format_length(rules.retrain_every)}.", findings
            )
        if not findings.what:
            return _build_verdict(
                True, "cannot look", f"the new data cannot be sampled: {'; '.join(findings.notes)}.", findings
            )
        return _build_verdict(False, "no change", seen(findings), findings)


def _build_verdict(train: bool, cause: Cause, why: str, findings: Findings | None = None) -> Verdict:
    return Verdict(train=train, cause=cause, why=why.strip(), findings=findings or Findings())


# ---- the page with the reason


_HEAD = ("column", "stability index", "by chance", "p", "missing then", "now", "never seen", "")


def html(decision: Verdict) -> str:
    """Renders the page, self-contained."""
    findings = decision.findings
    notes = "".join(f"<li>{escape(note)}</li>" for note in findings.notes)
    parts = [
        f"<h1>{'Trains' if decision.train else 'Does not train'}</h1>",
        f'<p class="lead">Why: {escape(decision.why)}</p>',
        *(f"<p>{escape(line)}</p>" for line in describe_findings(decision)),
        _format_table(findings),
        f'<ul class="sentences">{notes}</ul>' if notes else "",
    ]
    return page.document(f"Retraining: {'train' if decision.train else 'skip'}", "".join(parts))


def describe_findings(decision: Verdict) -> list[str]:
    """Returns sentences about champion, rows and loss."""
    findings, lines = decision.findings, list[str]()
    if decision.champion:
        last = f" The last training was on {decision.last_trained}." if decision.last_trained else ""
        lines.append(f"Champion: {decision.champion}.{last}")
    if findings.what:
        part = "" if findings.sample == findings.rows else f", of which {findings.sample:,} were compared"
        lines.append(f"New data: {findings.what}, {findings.rows:,} rows{part}.")
    if rows := findings.live:
        late = f" {rows.unlabelled:,} rows of these days have no label, or none yet." if rows.unlabelled else ""
        lines.append(
            f"Champion's mean loss on {rows.rows:,} rows of {rows.days} days after its evaluation: "
            f"{rows.loss:.4f} (standard error of the difference {rows.error:.4f}); in its evaluation: "
            f"{rows.evaluated:.4f}. p = {rows.p_value:.2g}.{late}"
        )
    return lines


def _format_table(findings: Findings) -> str:
    if not findings.shifts:
        return ""
    first, *others = (escape(title) for title in _HEAD)
    head = f'<th scope="col">{first}</th>' + "".join(f'<th class="number" scope="col">{title}</th>' for title in others)
    rows = "".join(map(_format_row, findings.shifts))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="panel wide"><div class="scroll">{table}</div></div>'


def _format_row(shift: Shift) -> str:
    unseen = f"{shift.unseen:.1%} {', '.join(shift.unseen_values)}".strip() if shift.unseen else ""
    cells = [
        f"{shift.index:.3f}", f"{shift.expected:.3f}", f"{shift.adjusted:.2g}", f"{shift.missing[0]:.1%}",
        f"{shift.missing[1]:.1%}", unseen, "drifted" if shift.drifted else "",
    ]  # fmt: skip
    mark = ' class="chosen"' if shift.drifted else ""
    values = "".join(f'<td class="number">{escape(cell)}</td>' for cell in cells)
    return f'<tr{mark}><th scope="row">{escape(shift.column)}</th>{values}</tr>'
