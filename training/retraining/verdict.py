"""Whether to train at all, and why, in one sentence."""

from datetime import datetime
from typing import Literal

from training.config import TrainConfig
from training.data.manifest import Frozen
from training.errors import UserError
from training.pins import store
from training.pins.documents import DataPins, Request
from training.pins.resolve import Resolved
from training.registry.documents import Record
from training.retraining import policy, reigning
from training.retraining.findings import Findings, drift_words, look_at, loss_words, seen
from training.retraining.policy import Policy
from training.retraining.reigning import Reigning

Cause = Literal[
    "asked", "no champion", "changed", "nothing new", "new data", "age", "drift", "performance", "cannot look",
    "no change", "waits", "never",
]  # fmt: skip


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
    findings = look_at(champion, resolved.data, request.task, rules, run) if rules.looks else Findings()
    if rules.when == "never":
        return _told(False, "never", f'when = "never"; {seen(findings)}', findings)
    return _by_findings(champion, last, waits, findings, rules, now)


def _by_findings(
    champion: Reigning, last: datetime | None, waits: bool, findings: Findings, rules: Policy, now: datetime
) -> Verdict:
    if waits:
        assert rules.wait and last
        day = policy.until(rules.wait, last)
        words = f"a model was trained on {last:%Y-%m-%d}, and wait = {policy.spoken(rules.wait)} ends on {day}"
        return _told(False, "waits", f"{words}; {seen(findings)}" if seen(findings) else f"{words}.", findings)
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


def _told(train: bool, cause: Cause, why: str, findings: Findings | None = None) -> Verdict:
    return Verdict(train=train, cause=cause, why=why.strip(), findings=findings or Findings())
