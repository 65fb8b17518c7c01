"""Releases a model in steps that may be killed and repeated.

1. Copies the files into a folder of the registry that is named by the release's key.
2. Loads the copy in another process and compares its predictions with the evaluated ones (`check_copy`).
3. Registers the version, promotes it if the champion that it was compared with is still the champion, and spends the
   level of the test, in one change of the record (`effects`).

A repetition has the same key: it reuses copied files and does not repeat what the record holds.
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
from vgp.registry.documents import Record, Version, VersionFile
from vgp.registry.registry import Registry

if TYPE_CHECKING:
    from vgp.decision.report.card import Origin

#: Variables with the step's image and, for a local run, the commit of its code.
IMAGE_VARIABLE, STEP_IMAGE_VARIABLE, COMMIT_VARIABLE = variables.IMAGE, variables.STEP_IMAGE, variables.COMMIT
#: Prefixes of the metrics of other models.
_OTHERS = ("champion_", "baseline_", "boosting_")


@dataclass(frozen=True)
class Inputs:
    """Folders and files of a run, local or below /gcs."""

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
    #: Number of the Google Cloud project; "" for a local run.
    project: str = ""
    #: Commit of the code; "" = from the environment.
    commit: str = ""


def release(inputs: Inputs, root: str, model: str, approve: Approval = "auto") -> Outcome:
    """Releases the model of a run according to the gate's decision.

    Raises:
        UserError: a file is missing, or the registry cannot be read or written.
        ProcessFailed: the copied model is not the evaluated one; nothing is registered.
    """
    registry = registries.open(root, model)
    gate, dataset = decisions.read(inputs.decision), manifest.load(inputs.data)
    champion = store.load(inputs.champion, ChampionPins) if inputs.champion else None
    described = effects.key_of_files(inputs.model)
    release = Release(
        _build_version(inputs, registry, described, champion, dataset, gate),
        gate.promote, approve, inputs.run or "a person", gate.spends, gate.decided, gate.candidate,
        gate.confidence, gate.evidence, gate.evidence is None or gate.better_tonight,
    )  # fmt: skip
    record = registry.read()
    if not effects.done(record, release.key) and effects.apply_release(record, release).find_key(release.key):
        release = _copy_files(release, registry, inputs)
    record = registry.change(lambda newer: effects.apply_release(newer, release))
    result = outcome.of(record, release.key, release.who)
    return replace(result, read=lambda: registry.with_present_folders(registry.read()).model_dump(mode="json"))


def _build_version(
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
        # It serves predictions, also on a GPU, where the light image of this step cannot.
        image=os.environ.get(STEP_IMAGE_VARIABLE) or os.environ.get(IMAGE_VARIABLE, ""),
        code=os.environ.get(variables.CODE, ""),
        metrics={
            name: value for name, value in scalars.items() if not name.startswith(_OTHERS) and math.isfinite(value)
        },
        reason=gate.reason,
        report=f"{folder}/{effects.ABOUT}/report.html",
        labels={reigning.PROJECT: inputs.project} if inputs.project else {},
        champion=champion.number or None if champion else None,
        data=dataset.window,
    )


def _copy_files(release: Release, registry: Registry, inputs: Inputs) -> Release:
    """Copies the release's files into the registry and checks them; returns the release with these files."""
    version = release.version
    if any(name.startswith(f"{effects.ABOUT}/") for name in version.files):
        raise UserError(
            f"{inputs.model} has a folder {effects.ABOUT}/, which the registry uses for the report: rename it."
        )
    there = versions.add(registry, inputs.model, release.key)
    if {name: there.get(name) for name in version.files} != version.files:
        raise UserError(f"{inputs.model} changed while it was copied: use a folder that no process writes to.")
    with tempfile.TemporaryDirectory(prefix="about-") as scratch:
        _write_about(Path(scratch) / effects.ABOUT, inputs, _origin(release, registry))
        there = {**there, **versions.add(registry, scratch, release.key)}
    checked = check_copy(version.model, inputs.data, inputs.evaluation, inputs.task or version.task)
    print(f"version: {checked.words}", file=sys.stderr, flush=True)
    return release.with_files(there)


def _write_about(folder: Path, inputs: Inputs, origin: "Origin") -> None:
    """Writes report, decision, figures and model card of the version."""
    from vgp.decision.report import card  # imports matplotlib, which is slow

    folder.mkdir()
    shutil.copyfile(inputs.report, folder / file_names.REPORT)
    shutil.copyfile(inputs.decision, folder / decisions.FILE_NAME)
    shutil.copyfile(Path(inputs.evaluation) / evaluations.FILE_NAME, folder / evaluations.FILE_NAME)
    card.write(
        folder / card.FILE_NAME, data=inputs.data, model=inputs.model, evaluation=inputs.evaluation,
        decision=decisions.read(inputs.decision), origin=origin,
    )  # fmt: skip


def _origin(release: Release, registry: Registry) -> "Origin":
    """Returns the origin for the card, without a time, so that a repetition writes the same bytes."""
    from vgp.decision.report.card import Origin

    version = release.version
    waits = release.approve == "manual" or not release.promote
    return Origin(
        name=registry.model, pipeline=version.pipeline, run=version.run, pins=version.pins, commit=version.commit,
        image=version.image, code=version.code, champion=version.champion, report=version.report,
        who=f"Candidate of {release.who}, waiting for approval" if waits else f"Found better by {release.who}",
    )  # fmt: skip


# ---- warnings before the training


def warn_of_spent_error(record: Record, confidence: float, nights: int) -> tuple[str, ...]:
    """Returns a warning if the year's error budget is used up, so that no test of this run can promote."""
    level, now = levels.tonight(confidence, nights), datetime.now(UTC)
    why = tests_spent.used_up(record.spent, "", level, confidence, now)
    return (f"gate: a better model will wait as a candidate, because {why}.",) if why else ()


# ---- the check of the copy


@dataclass(frozen=True)
class Checked:
    """The result of the check."""

    #: Rows predicted again, and rows in all; 0 for a script's model without predictions.
    rows: int
    of: int
    #: Rows with predictions equal bit for bit, and the largest difference of the others.
    equal: int
    difference: float

    @property
    def words(self) -> str:
        if not self.of:
            return "all files copied byte for byte"
        some = f"{self.rows:,}" if self.rows == self.of else f"{self.rows:,} of {self.of:,}"
        same = "bit for bit" if self.equal == self.rows else f"up to {self.difference:.1e}"
        return f"the copied model reproduces the predictions of {some} test rows, {same}"


def check_copy(folder: str, data: str, evaluation: str, task: str) -> Checked:
    """Loads the copied model in a new process and compares its predictions with the evaluated ones.

    Raises:
        ProcessFailed: the copy cannot be loaded, or its predictions differ.
    """
    command = [sys.executable, "-m", "vgp.decision.release.artifact", folder, data, evaluation, task]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search_path()))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="backslashreplace")
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()] or ["the process printed nothing"]
        reason = lines[-1].removeprefix("error: ").removeprefix("failed: ")
        ended = "" if done.returncode in (1, EXIT_USER_ERROR) else f" (exit code {done.returncode})"
        raise ProcessFailed(
            f"the copy in {folder} failed its check and was not registered{ended}: {reason} The champion stays."
        )
    fields: JsonObject = json.loads(done.stdout.splitlines()[-1])
    return Checked(**fields)
