"""The first step of a run: pins, settings for later steps, and the decision whether to train.

A retry with an earlier run's pins keeps its decision, whatever the date.
"""

import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from vgp.base.documents import json_text
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import ProcessFailed, UserError
from vgp.base.storage import files, storage
from vgp.data import tasks
from vgp.decision.decision import check_worst_day
from vgp.decision.release import release
from vgp.decision.retraining.policy import Policy
from vgp.protocol import moment, run_folder
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins, RunPins
from vgp.registry import registry as registries
from vgp.registry import reigning
from vgp.registry.documents import Record, choose_model_name
from vgp.registry.evidence import Evidence
from vgp.steps import run_request
from vgp.steps.pins import resolve as pins_of
from vgp.steps.pins.resolve import Resolved
from vgp.steps.retraining_verdict import Verdict, html, verdict
from vgp.steps.run_request import Form
from vgp.train.loop import validation_metric


class Outputs(NamedTuple):
    """The outputs of the step, in the order of the component."""

    Output: str
    why: str
    digest: str
    uri: str
    data: str
    champion: str
    registry: str
    model_name: str
    config: JsonObject
    terms: JsonObject


@dataclass(frozen=True, kw_only=True)
class Resolution(Resolved):
    """The resolved parameters, and the decision."""

    form: Form
    verdict: Verdict
    #: The evidence against the champion; None if the run is compared with another model.
    evidence: Evidence | None

    @property
    def outputs(self) -> Outputs:
        """Returns the outputs of the step."""
        pins = (self.digest, self.uri, self.data, self.champion, self.registry, self.model_name)
        terms = self.form.terms.model_copy(update={"evidence": self.evidence}).model_dump(
            mode="json", exclude_none=True
        )
        return Outputs(self.verdict.outcome, self.verdict.why, *pins, self.form.settings, terms)


def resolve(form: Form, record: str, page: str, *, to: str, project: str, dry_run: bool, **run: Any) -> Resolution:
    """Pins the run's inputs, decides whether it trains, and writes pins, record, decision and page.

    Args:
        page: File for the page of the decision; "" = none.
        run: `pipeline`, `run`, `scheduled`, `as_of` and `pins` of `vgp.steps.calls.resolve`.
    """
    request, terms = form.request, form.terms
    work = tasks.load(request.task, request.task_options)
    validation_metric.require_metric(form.config, work)
    run_request.check_bounds(form, work)
    output = run_folder.parse(record)
    model = choose_model_name(request.model_name, request.task, request.task_options)
    registry = reigning.open_registry(request.registry, model, record or to)
    folder = run_folder.pins_at(to) if to else run_folder.pins(record)
    project = project or (output.project if output else "")
    resolved = pins_of.resolve(request, folder, registry, project=project, dry_run=dry_run, **run)
    evidence = None
    if resolved.champion:
        record_now = registry.read()
        evidence = _read_evidence(record_now, resolved, form, dry_run)
        if terms.approve != "manual" and not terms.worst_day:
            forecast = release.warn_of_spent_error(record_now, terms.confidence, terms.nights)
            resolved = replace(resolved, words=(*resolved.words, *forecast))
    for sentence in resolved.words:
        print(sentence, file=sys.stderr, flush=True)
    if record and not dry_run:
        pins_of.write_record(resolved, record)
    decision = _decide(resolved, form, page, run, dry_run)
    facts = {"decision": decision.outcome, "cause": decision.cause, "why": decision.why}
    values = vars(resolved) | {"metadata": {**resolved.metadata, **facts}}
    return Resolution(**values, form=form, verdict=decision, evidence=evidence)


def _read_evidence(record: Record, resolved: Resolved, form: Form, dry_run: bool) -> Evidence | None:
    """Returns the evidence if the run is compared with the registry's champion.

    Raises:
        UserError: its days refute `worst_day`.
    """
    evidence = record.evidence_now()
    if dry_run or not evidence.champion or store.load(resolved.champion, ChampionPins).number != evidence.champion:
        return None
    check_worst_day(form.terms.worst_day, None, evidence.deviation)
    return evidence.at(resolved.digest)


def _decide(resolved: Resolved, form: Form, page: str, run: JsonObject, dry_run: bool) -> Verdict:
    """Decides whether to train; reads and writes nothing in a dry run or with when = always."""
    if dry_run or (form.policy.when == "always" and not form.policy.force):
        return Verdict(train=True, cause="asked", why="")
    decision = (_earlier_decision(resolved, form.policy) if run["pins"] else None) or _decide_anew(resolved, form, run)
    print(decision.headline, file=sys.stderr, flush=True)
    storage.overwrite(_decision_file(resolved), decision.model_dump_json().encode())
    if page:
        files.write(page, html(decision))
    return decision


def _decide_anew(resolved: Resolved, form: Form, run: JsonObject) -> Verdict:
    request = store.load(resolved.uri, RunPins).request
    now = datetime.now(UTC)
    when = moment.choose_moment(run["as_of"], run["scheduled"], now)
    record = registries.open(resolved.registry, resolved.model_name).read()
    time = when.time if when else now
    return verdict(resolved, request, record, form.policy, form.config, run=run["run"], now=time)


def _decision_file(resolved: Resolved) -> str:
    """Returns the path of the decision, beside its pins."""
    return f"{resolved.uri.removesuffix('.json')}-decision.json"


def _earlier_decision(resolved: Resolved, rules: Policy) -> Verdict | None:
    """Returns the earlier decision with these pins; None if there is none, or training is forced."""
    if rules.force:
        return None
    try:
        text = storage.read(_decision_file(resolved), most=files.MOST_JSON_BYTES)
        return Verdict.model_validate(json_text.parse_json(text))
    except (UserError, ProcessFailed, ValueError):
        return None
