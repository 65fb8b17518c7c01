"""What the step resolve of the workflow retraining calls: pins as `vgp.steps.calls.resolve`, then the decision.

An attempt that goes on with the pins of an earlier run goes on with its decision, too, whatever day it is by then.
"""

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from vgp.base import strict
from vgp.base.exits import ProcessFailed, UserError, exits
from vgp.base.storage import files, storage
from vgp.decision.retraining import policy
from vgp.decision.retraining.policy import Policy
from vgp.protocol import moment
from vgp.protocol import pin_store as store
from vgp.protocol.pins import RunPins
from vgp.registry import registry as registries
from vgp.steps import calls as steps
from vgp.steps import run_request
from vgp.steps.pins.resolve import Resolved
from vgp.steps.retraining_verdict import Verdict
from vgp.train.config import parse

#: The parameters that say when a run trains.
RULES = tuple(policy.checked.__kwdefaults__ or ())


class Outputs(NamedTuple):
    """What the step returns, in the order of the component."""

    Output: str
    why: str
    digest: str
    uri: str
    data: str
    champion: str
    registry: str
    model_name: str


class Retraining(NamedTuple):
    """What was resolved, and decided."""

    resolved: Resolved
    verdict: Verdict

    @property
    def uri(self) -> str:
        return self.resolved.uri

    @property
    def metadata(self) -> Mapping[str, Any]:
        known = {"decision": self.verdict.outcome, "cause": self.verdict.cause, "why": self.verdict.why}
        return {**self.resolved.metadata, **known}

    @property
    def outputs(self) -> Outputs:
        names = Outputs._fields[2:]
        return Outputs(self.verdict.outcome, self.verdict.why, *(getattr(self.resolved, name) for name in names))


def check_rules(given: Mapping[str, Any]) -> None:
    """Raises ValueError for a rule of the workflow that cannot be."""
    try:
        policy.checked(**given)
    except UserError as error:
        raise ValueError(str(error)) from None


@exits
def resolve(record: str | Path = "", page: str | Path = "", **given: Any) -> Retraining:
    """Pins what a run works on, decides whether it trains, and writes pins, decision and page.

    Args:
        record: An output of the step, as of `vgp.steps.calls.resolve`.
        page: Where the page of the decision goes; "" = nowhere.
        given: The arguments of `vgp.steps.calls.resolve` and of `vgp.decision.retraining.policy.checked`.
    """
    rules = policy.checked(**{name: given.pop(name) for name in RULES if name in given})
    resolved = steps.resolve(record, **given)
    made = _earlier(resolved, rules) if given.get("pins") else None
    made = made or _decided(resolved, rules, given)
    print(made.headline, file=sys.stderr, flush=True)
    if not given.get("dry_run"):
        storage.overwrite(_memory(resolved), made.model_dump_json().encode())
    if page:
        from vgp.steps.retraining_page import html

        files.write(page, html(made))
    return Retraining(resolved, made)


def _decided(resolved: Resolved, rules: Policy, given: Mapping[str, Any]) -> Verdict:
    from vgp.steps.retraining_verdict import verdict

    request = store.load(resolved.uri, RunPins).request
    now = datetime.now(UTC)
    when = moment.chosen(given.get("as_of", ""), given.get("scheduled", ""), now)
    record = registries.open(resolved.registry, resolved.model_name).read()
    return verdict(
        resolved, request, record, rules, _config(given), run=given.get("run", ""), now=when.time if when else now
    )


def _config(given: Mapping[str, Any]) -> Any:
    """The settings of the training, which `steps.resolve` has checked."""
    from vgp.train.config import TrainConfig

    own = {name: given[name] for name in TrainConfig.model_fields if name in given and name != "task"}
    options = run_request.whole(given.get("training_options") or {})
    return parse(
        {"task": given.get("task", "flights"), "options": dict(given.get("task_options") or {}), **own, **options}
    )


def _memory(resolved: Resolved) -> str:
    """Where the decision of these pins lies, beside them."""
    return f"{resolved.uri.removesuffix('.json')}-decision.json"


def _earlier(resolved: Resolved, rules: Policy) -> Verdict | None:
    """The decision that was made with these pins; None if there is none, or training is forced now."""
    if rules.force:
        return None
    try:
        return Verdict.model_validate(strict.loads(storage.read(_memory(resolved), most=files.MOST_JSON_BYTES)))
    except (UserError, ProcessFailed, ValueError):
        return None
