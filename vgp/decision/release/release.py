"""A model is released: the effects in their order, safe to kill between any two, and to repeat.

1. The files are copied below the registry, into a folder named by the key, which no record knows yet.
2. The copy is loaded in a process of its own and must predict what was evaluated (`check_copy`). That process knows the
   folder of the version and nothing of this one's memory.
3. One change of the record registers the version, makes it the champion if the one that it was compared with still
   reigns, and spends the level of the test (`effects`). Killed before, it knows nothing; killed after, all is done.

Whoever repeats it has the same key: what is copied is taken, and what the record holds is not done again.
"""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import EXIT_USER_ERROR, ProcessFailed, UserError
from vgp.decision import decision as decisions
from vgp.decision import levels
from vgp.decision.decision import Approval, Decision
from vgp.decision.release import effects, outcome
from vgp.decision.release.effects import Release
from vgp.decision.release.outcome import Outcome
from vgp.evaluation import record as evaluations
from vgp.protocol import environment as variables
from vgp.protocol import file_names, manifest
from vgp.protocol import pins as store
from vgp.protocol.imports import search_path
from vgp.protocol.manifest import Manifest
from vgp.protocol.pins import ChampionPins
from vgp.registry import registry as registries
from vgp.registry import reigning, tests_spent, versions
from vgp.registry.documents import Version, VersionFile
from vgp.registry.registry import Registry

if TYPE_CHECKING:
    from vgp.decision.report.card import Origin

#: As the tool tells them: the image that the step runs in, and the commit of the code of a local run.
IMAGE_VARIABLE, COMMIT_VARIABLE = variables.IMAGE, variables.COMMIT
#: Of other models that were scored beside it.
_OTHERS = ("champion_", "baseline_", "boosting_")


@dataclass(frozen=True)
class Inputs:
    """What a run left: folders and files, here or below /gcs."""

    data: str
    model: str
    evaluation: str
    decision: str
    report: str
    #: URI of the champion's pins, and of the run's; "" = none.
    champion: str = ""
    pins: str = ""
    task: str = ""
    run: str = ""
    pipeline: str = ""
    #: Number of the project; "" on a machine of one's own.
    project: str = ""
    #: Of the code; "" = what the environment tells.
    commit: str = ""


def release(inputs: Inputs, root: str, model: str, approve: Approval = "auto") -> Outcome:
    """Releases the model of a run as the gate's decision says.

    Raises:
        UserError: something is not there, or the registry cannot be read or written.
        ProcessFailed: the copy is not the model that was evaluated: nothing is registered.
    """
    registry = registries.open(root, model)
    gate, dataset = decisions.read(inputs.decision), manifest.load(inputs.data)
    champion = store.load(inputs.champion, ChampionPins) if inputs.champion else None
    described = effects.key_of_files(inputs.model)
    release = Release(
        _version(inputs, registry, described, champion, dataset, gate),
        gate.promote, approve, inputs.run or "a person", gate.spends, gate.decided, gate.candidate,
        gate.confidence,
    )  # fmt: skip
    record = registry.read()
    if not effects.done(record, release.key) and effects.applied(record, release).keyed(release.key):
        release = _copied(release, registry, inputs)
    record = registry.change(lambda newer: effects.applied(newer, release))
    told = outcome.of(record, release.key, release.who)
    return replace(told, read=lambda: registry.with_places(registry.read()).model_dump(mode="json"))


def _version(
    inputs: Inputs, registry: Registry, described: dict[str, VersionFile], champion: ChampionPins | None,
    dataset: Manifest, gate: Decision,
) -> Version:  # fmt: skip
    key = effects.key_of(described, champion, dataset.fingerprint, gate)
    folder = registry.version_folder(key)
    scalars = evaluations.load(inputs.evaluation).scalars
    return Version(
        number=0,
        key=key,
        model=folder,
        files=described,
        run=inputs.run,
        pipeline=inputs.pipeline,
        task=dataset.task,
        pins=inputs.pins,
        commit=inputs.commit or os.environ.get(COMMIT_VARIABLE, ""),
        image=os.environ.get(IMAGE_VARIABLE, ""),
        metrics={
            name: value for name, value in scalars.items() if not name.startswith(_OTHERS) and math.isfinite(value)
        },
        reason=gate.reason,
        report=f"{folder}/{effects.ABOUT}/report.html",
        labels={reigning.PROJECT: inputs.project} if inputs.project else {},
        champion=champion.number or None if champion else None,
        data=dataset.window,
    )


def _copied(release: Release, registry: Registry, inputs: Inputs) -> Release:
    """The release with its files below the registry, checked; nothing knows of them yet."""
    version = release.version
    if any(name.startswith(f"{effects.ABOUT}/") for name in version.files):
        raise UserError(
            f"{inputs.model} has a folder {effects.ABOUT}/, where the registry keeps the report: rename it."
        )
    there = versions.add(registry, inputs.model, release.key)
    if {name: there.get(name) for name in version.files} != version.files:
        raise UserError(f"{inputs.model} was written to while it was copied: give a folder that nobody writes to.")
    with tempfile.TemporaryDirectory(prefix="about-") as scratch:
        _write_about(Path(scratch) / effects.ABOUT, inputs, _origin(release, registry))
        there = {**there, **versions.add(registry, scratch, release.key)}
    checked = check_copy(version.model, inputs.data, inputs.evaluation, inputs.task or version.task)
    print(f"version: {checked.words}", file=sys.stderr, flush=True)
    return release.with_files(there)


def _write_about(folder: Path, inputs: Inputs, origin: "Origin") -> None:
    """What is told of the model, as files of its version: report, decision, figures, card."""
    from vgp.decision.report import card  # matplotlib: a step that registers nothing draws nothing

    folder.mkdir()
    shutil.copyfile(inputs.report, folder / file_names.REPORT)
    shutil.copyfile(inputs.decision, folder / decisions.FILE_NAME)
    shutil.copyfile(Path(inputs.evaluation) / evaluations.FILE_NAME, folder / evaluations.FILE_NAME)
    card.write(
        folder / card.FILE_NAME, data=inputs.data, model=inputs.model, evaluation=inputs.evaluation,
        decision=decisions.read(inputs.decision), origin=origin,
    )  # fmt: skip


def _origin(release: Release, registry: Registry) -> "Origin":
    """Without a time, so that a repetition writes the same bytes, and without a rank: the record comes later, and may
    refuse the alias."""
    from vgp.decision.report.card import Origin

    version = release.version
    waits = release.approve == "manual" or not release.promote
    return Origin(
        name=registry.model, pipeline=version.pipeline, run=version.run, pins=version.pins, commit=version.commit,
        image=version.image, champion=version.champion, report=version.report,
        who=f"A candidate of {release.who}: a person decides" if waits else f"Found better by {release.who}",
    )  # fmt: skip


# ---- what a run's release cannot bring, told before anything is trained


def foreseen(registry: Registry, confidence: float, nights: int) -> tuple[str, ...]:
    """A sentence where no test of the run may promote, since those of a year have used up its error; else nothing."""
    level, now = levels.tonight(confidence, nights), datetime.now(UTC)
    why = tests_spent.used_up(registry.read().spent, "", level, confidence, now)
    return (f"gate: a better model will wait as a candidate, for {why}.",) if why else ()


# ---- the copy loaded in a process of its own: it must predict what was evaluated


@dataclass(frozen=True)
class Checked:
    """What the process saw."""

    #: Rows that were predicted again, of how many; 0 where a script's files are all there is.
    rows: int
    of: int
    #: Rows whose predictions are the same, bit for bit, and the largest difference of the others.
    equal: int
    difference: float

    @property
    def words(self) -> str:
        if not self.of:
            return "its files are there, byte for byte"
        some = f"{self.rows:,}" if self.rows == self.of else f"{self.rows:,} of {self.of:,}"
        same = "bit for bit" if self.equal == self.rows else f"up to {self.difference:.1e}"
        return f"loaded from the registry it predicts {some} test rows as evaluated, {same}"


def check_copy(folder: str, data: str, evaluation: str, task: str) -> Checked:
    """Loads the model in the version's folder in a new process and compares its predictions with those evaluated.

    Raises:
        ProcessFailed: it cannot be loaded, or predicts something else.
    """
    command = [sys.executable, "-m", "vgp.decision.release.artifact", folder, data, evaluation, task]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search_path()))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="backslashreplace")
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()] or ["it said nothing"]
        said = lines[-1].removeprefix("error: ").removeprefix("failed: ")
        ended = "" if done.returncode in (1, EXIT_USER_ERROR) else f" (exit code {done.returncode})"
        raise ProcessFailed(
            f"the copy in {folder} is not registered, for it did not pass its check{ended}: {said} The champion stays."
        )
    fields: JsonObject = json.loads(done.stdout.splitlines()[-1])
    return Checked(**fields)
