"""What a schedule's coming runs would do: the pins that its data has now, against those of its last good run.

The pins are asked of the training code, `python -m vgp.steps resolve --dry-run`, in a process of its own: the tool does
not know what a task reads. Where that code is not there, it is not known, and said.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from vgp.base.text.figures import listed
from vgp.base.text.printable import one_line
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings
from vgp.vertex import clients, resource_names
from vgp.vertex.runs import attempts, outputs, run_search
from vgp.vertex.runs.remote_run import Run
from vgp.vertex.runs.run_history import LastRuns, last_runs
from vgp.vertex.schedules import schedule_list
from vgp.vertex.schedules.declared_schedule import Declaration
from vgp.vertex.schedules.hits import Key, hits, keys
from vgp.vertex.schedules.nights import NIGHT

#: Seconds that the data may take to be listed.
_TIMEOUT_S = 300
#: Inputs of the step that are no part of the form: a dry run takes the pins of no other run, and decides nothing.
_OF_THE_RUN = ("run", "scheduled", "when", "force")
#: Outputs of the step that name pins by where they lie, and those that later steps are given as they are.
_PINS, _VALUES = ("data", "champion"), ("config", "terms")

Ask = Callable[[Mapping[str, Any]], tuple[dict[str, Any], str]]


@dataclass(frozen=True)
class Outlook:
    """What the next run of a schedule would do, and those after it."""

    #: Why it is not known; empty where it is.
    unknown: str = ""
    #: The last good run, if there is one.
    run: str = ""
    #: Steps that may take earlier results, and those of them that would.
    pinned: Sequence[str] = ()
    hits: Sequence[str] = ()
    #: Whether the data's pins, and the champion's, are those of `run`.
    same_data: bool = False
    same_champion: bool = False
    #: Whether the run's first step decides if the others run at all.
    decides: bool = False
    #: The pins that were asked for were those of this time.
    now: datetime = datetime.min.replace(tzinfo=UTC)
    #: What the pipeline's last runs cost, whoever started them.
    last: LastRuns | None = None

    def taken(self, time: datetime, before: datetime | None) -> Sequence[str]:
        """The steps that would be hits at that time, unless data arrives: behind another run, all that may be."""
        if before and not self.decides:
            return self.pinned if resource_names.epoch(time) == resource_names.epoch(before) else ()
        return self.hits if resource_names.epoch(time) == resource_names.epoch(self.now) else ()

    def words(self, time: datetime, before: datetime | None) -> str:
        """What the run of that time would do; `before`: the time of the one before it, None for the next one."""
        if self.decides and self.run:
            data = "data as in" if self.same_data else "new data since"
            return f"{data} {self.run}: {attempts.STEP} decides whether to train"
        if self.decides and before:
            return f"{attempts.STEP} decides whether to train"
        if (self.hits or before) and not self.taken(time, before):
            return f"all steps run: the cache epoch ends on {resource_names.epoch_end(before or self.now):%Y-%m-%d}"
        if before:
            return "nothing would be trained, unless data arrives"
        if not self.run:
            return "all steps run: it has no good run yet"
        if not self.same_data:
            return f"new data since {self.run}: all steps run"
        if self.hits == self.pinned:
            return f"data as in {self.run}: nothing would be trained"
        changed = "another champion" if not self.same_champion else "the pipeline or its parameters changed"
        missed = [step for step in self.pinned if step not in self.hits]
        kept = f", {listed(self.hits, 'and')} as there" if self.hits else ""
        run = "runs" if len(missed) == 1 else "run"
        return f"data as in {self.run}, {changed}: {listed(missed, 'and')} {run}{kept}"

    def as_json(self, time: datetime, before: datetime | None) -> dict[str, Any] | None:
        """For --json: None where it is not known."""
        if self.unknown:
            return None
        return {
            "words": self.words(time, before),
            "run": [step for step in self.pinned if step not in self.taken(time, before)],
            "hit": list(self.taken(time, before)),
            "unless_data_arrives": before is not None,
        }


def outlook(
    settings: Settings, declaration: Declaration, *, now: datetime | None = None, ask: Ask | None = None
) -> Outlook:
    """What would run at the schedule's next time, and what would be a hit.

    Args:
        ask: Gives the outputs of the step resolve for its inputs, or why they are not known; None: the training code.

    Raises:
        WorkFailed: Google refused or could not be reached.
    """
    known = _outlook(settings, declaration, now or datetime.now(UTC), ask or partial(_pins, settings))
    return replace(known, last=last_runs(settings, PipelineSpec(declaration.job["pipelineSpec"]).name))


def _outlook(settings: Settings, declaration: Declaration, now: datetime, ask: Ask) -> Outlook:
    spec, values = PipelineSpec(declaration.job["pipelineSpec"]), declaration.job["runtimeConfig"]["parameterValues"]
    blank = keys(spec, values, {})
    asked = next((key for way, key in blank.items() if way.rpartition("/")[2] == attempts.STEP), None)
    names = {step.path: step.name for step in spec.steps}
    steps = [names[way] for way, key in blank.items() if key.cached]
    if asked is None:
        return Outlook("every step runs, since the pipeline does not pin what moves")
    if not steps:
        return Outlook("every step runs: none of this pipeline's takes the result of an earlier run")
    present, why = ask(asked.parameters)
    if not present:
        return Outlook(f"not known: {why}")
    last = _last_good(settings, declaration.name)
    if last is None:
        return Outlook(pinned=steps, now=now)
    before, after = _known(outputs.returned(last)), _known({f"{attempts.STEP}.{key}": present[key] for key in present})
    decided = decides(spec, values)
    data, champion = (f"{attempts.STEP}.{key}" for key in _PINS)
    if data not in before:  # what it returned may be gone
        then = f": {attempts.STEP} decides whether to train" if decided else ""
        return Outlook(f"not known whether there is new data since {last.id}, which does not tell its own{then}")
    done = {step.path for step in last.steps if step.state in ("succeeded", "cached")}
    would = [names[way] for way in hits(keys(spec, values, after), _keys_of(last, before), done)]
    return Outlook(
        "", last.id, steps, would, after[data] == before[data], after[champion] == before.get(champion), decided, now
    )


def decides(spec: PipelineSpec, values: Mapping[str, Any]) -> bool:
    """Whether a branch of the pipeline hangs on what the step resolve returns, and it is not told to train always."""
    always = {**spec.defaults, **values}.get("when") == "always"
    return not always and any(f"{attempts.STEP}-Output" in task.condition for _, task in spec.walk())


def _keys_of(run: Run, returned: Mapping[str, Any]) -> dict[str, Key]:
    return keys(run.spec, run.arguments, returned)


def _known(returned: Mapping[str, Any]) -> dict[str, Any]:
    """Outputs of the step resolve that tell its pins, without the folder that they lie in, and settings."""
    ours = {key.removeprefix(f"{attempts.STEP}."): key for key in returned}
    pins = {key: str(returned[key]).rpartition("/")[2] for name, key in ours.items() if name in _PINS}
    return {**pins, **{key: _value(returned[key]) for name, key in ours.items() if name in _VALUES}}


def _value(returned: Any) -> Any:
    """The value of an output, which Vertex AI may give as the text of its JSON."""
    return json.loads(returned) if isinstance(returned, str) else returned


def _last_good(settings: Settings, name: str) -> Run | None:
    """The schedule's newest good run, or rerun of one; a backfill saw another time."""
    newest = schedule_list.runs(settings, name, limit=1, states=["succeeded"], fits=lambda run: NIGHT not in run.labels)
    return run_search.find(settings, newest[0].id) if newest else None


def _pins(settings: Settings, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """What the step resolve would return now, or why that cannot be known here."""
    root = settings.repository.root
    if importlib.util.find_spec("numpy") is None:
        return {}, "the extra training, which could tell what its data is now, is not installed"
    given = {key: value for key, value in parameters.items() if key not in _OF_THE_RUN and value not in (None, "", {})}
    texts = (f"--set={name}={json.dumps(value)}" for name, value in given.items())
    # By the folder of the pins the registry is found, in which the champion reigns.
    place = f"--to={clients.bucket(settings)}/runs/pins"
    command = [sys.executable, "-m", "vgp.steps", "resolve", "--dry-run", "--json", place, *texts]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return {}, f"the data was not listed within {timedelta(seconds=_TIMEOUT_S)}"
    try:
        return dict(json.loads(done.stdout)), ""
    except ValueError:
        lines = done.stderr.strip().splitlines()
        return {}, one_line(lines[-1] if lines else f"resolve ended with {done.returncode}", 300)
