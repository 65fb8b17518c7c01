"""The request of a run, built once on rank 0 without torch, and read by every rank."""

import math
import re
from collections.abc import Callable, Collection, Mapping

from pydantic import BaseModel, ConfigDict

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.data import task_names
from vgp.protocol import environment as variables
from vgp.protocol.manifest import Manifest
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.checkpoint_manifest import Manifest as Checkpoint
from vgp.train.checkpoint.checkpoint_manifest import require_same_settings
from vgp.train.checkpoint.checkpoint_store import Store
from vgp.train.loop.sample_order import Plan, count_microbatches
from vgp.train.train_config import AUTO_FIELDS, TrainConfig, check_assignment
from vgp.train.warm_start_files import Weights

#: Holds the number of processes of every rung that a step's launcher may use, for example 8,16.
WORLD_SIZES_VARIABLE = variables.WORLD_SIZES


class Start(BaseModel):
    """The folder and run whose checkpoints a run resumes from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: The folder, and the number of the run in it; -1 = no resume.
    folder: str
    run: int


class TrainingRequest(BaseModel):
    """A run: its configuration, plan, folders and start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: TrainConfig
    plan: Plan
    #: The settings in its checkpoints, which a resume must match.
    settings: JsonObject
    #: Folders of the prepared dataset, of the model, and of checkpoints and logs (a URI for a bucket).
    data: str
    model: str
    checkpoints: str
    #: The number of this run in its checkpoint folder.
    run: int
    #: The name of the job, the same for its retries; "" = none.
    job: str
    #: The file of the fence that is open while this run holds the lease of the checkpoint folder; "" = none.
    fence: str = ""
    #: Part of the names of the files that this attempt saves.
    launch_id: str
    #: The time of the request, by `vgp.train.checkpoint.lease_holder.clock` on rank 0's machine.
    asked_at: float = 0.0
    start: Start
    #: The weights of a warm start.
    warm_start: Weights | None = None
    #: The values of `precision`, `compile` and `deterministic` that the resumed run resolved at its start.
    begun: JsonObject = {}
    #: Tags for the MLflow server, such as the pins.
    tags: dict[str, str] = {}

    def settled(self, config: TrainConfig) -> "TrainingRequest":
        """Returns a copy with the resolved `config`, as it is written to checkpoints, the model's card and figures."""
        fields = self.settings["config"] | {name: getattr(config, name) for name in AUTO_FIELDS}
        return self.model_copy(update={"config": config, "settings": self.settings | {"config": fields}})


def find_start(config: TrainConfig, own: Store, named: Callable[[], Store], job: str) -> tuple[int, Store, int]:
    """Returns the number of this run in its `own` store, then the store and run to resume from (-1 = none).

    Args:
        named: Opens the store that `resume` names, if it names one.

    Raises:
        UserError: the store that `resume` names holds no checkpoints.
    """
    newest = recovery.find_newest_run(own)
    if config.resume == "never" and not _is_of(own, newest, job):
        return newest + 1, own, -1
    if config.resume in ("auto", "never") or newest >= 0:  # a retry resumes from its own checkpoints first
        return max(newest, 0), own, newest
    other = named()
    run = recovery.find_newest_run(other)
    if run < 0:
        raise UserError(f"resume={config.resume}: there are no checkpoints; give auto, never or a folder with some.")
    return 0, other, run


def plan_run(
    config: TrainConfig,
    data: Manifest,
    task: str,
    world_size: int,
    source: Store,
    run: int,
    *,
    elsewhere: Collection[int] = (),
    weights: Mapping[str, str] | None = None,
) -> tuple[Plan, JsonObject, JsonObject]:
    """Returns the plan of the run, the settings for its checkpoints, and the values that it resolved at its start.

    Args:
        source: The store of the checkpoints to resume from.
        run: The number of the run to resume in `source`; -1 = none.
        elsewhere: Other numbers of processes with which the run may have to resume.
        weights: The fingerprint of the warm start's weights.

    Raises:
        UserError: the microbatches do not suit the number of processes, or the checkpoints have other settings.
    """
    newest = _newest_manifest(source, run)
    then = _settings_then(newest)
    before = then.get("microbatches")
    if type(before) is not int or not 0 < before <= config.global_batch_size:
        before = 0
    microbatches = config.microbatches or before
    if not microbatches or (microbatches < world_size and not config.microbatches and not config.exact):
        # An exact run never changes its number of microbatches, so it must suit the largest number of processes.
        largest = max(world_size, *elsewhere) if config.exact and elsewhere else world_size
        microbatches = count_microbatches(largest, config.global_batch_size, exact=config.exact)
    check_assignment(microbatches, world_size, config.exact)
    for other in sorted({*elsewhere} - {world_size}) if config.exact or config.microbatches else ():
        check_assignment(microbatches, other, config.exact, where=f" ({WORLD_SIZES_VARIABLE}: a rung has so many)")
    begun = _chosen_then(then, config)
    fields = config.decisive_fields() | {"task": task, "options": data.options, "microbatches": microbatches} | begun
    samples = data.rows("train")
    settings = {"config": fields, "microbatches": microbatches, "data": data.fingerprint, "samples": samples}
    if weights:
        settings["warm_start"] = dict(weights)
    if before and before < microbatches and not config.microbatches:
        then = _with_microbatches(then, microbatches)
    if then:
        require_same_settings(then, settings, str(source))
    return Plan(samples, config.epochs, config.global_batch_size, microbatches, config.seed), settings, begun


def _settings_then(newest: Checkpoint | None) -> JsonObject:
    """Returns the settings of a checkpoint, with the current name of its task; {} without a checkpoint."""
    if newest is None:
        return {}
    config = newest.settings.get("config", {})
    named = {"task": task_names.spec(config["task"])} if isinstance(config.get("task"), str) else {}
    return {**newest.settings, "config": {**config, **named}}


def world_sizes(environment: Mapping[str, str]) -> list[int]:
    """Returns the numbers of processes of all rungs of the step; empty if the variable is unset."""
    text = environment.get(WORLD_SIZES_VARIABLE, "")
    sizes = [part.strip() for part in text.split(",") if part.strip()]
    if not all(re.fullmatch("[1-9][0-9]{0,5}", size) for size in sizes):
        raise UserError(f"{WORLD_SIZES_VARIABLE}={text!r}: give the processes of every rung, such as 8,16.")
    return [int(size) for size in sizes]


def _is_of(store: Store, run: int, job: str) -> bool:
    """Whether an earlier attempt of this job wrote the run's checkpoints."""
    newest = _newest_manifest(store, run) if job else None
    return newest is not None and newest.job == job


def _with_microbatches(settings: JsonObject, microbatches: int) -> JsonObject:
    """Returns the settings of the run to resume with another number of microbatches, for a resume on more processes."""
    config = settings.get("config")
    changed = {"config": config | {"microbatches": microbatches}} if isinstance(config, dict) else {}
    return settings | changed | {"microbatches": microbatches}


def _chosen_then(settings: JsonObject, config: TrainConfig) -> JsonObject:
    """Returns the values that the run to resume has resolved, for the fields that are `auto` now."""
    then = settings.get("config")
    auto_fields = [name for name in AUTO_FIELDS if getattr(config, name) == "auto"]
    values = {name: then[name] for name in auto_fields if name in then} if isinstance(then, dict) else {}
    return {name: value for name, value in values.items() if value != "auto" and _is_value(name, value)}


def _is_value(name: str, value: object) -> bool:
    return value in ("fp32", "bf16", "fp16") if name == "precision" else value is True or value is False


def _newest_manifest(store: Store, run: int) -> Checkpoint | None:
    """Returns the newest readable manifest of the run, or None; its parts may be damaged."""
    for name in recovery.list_manifests(store, run):
        try:
            return recovery.read_manifest(store, name)
        except recovery.Damaged:
            continue
    return None


#: Holds the launcher's estimate of interruptions of the whole job per hour.
RATE_VARIABLE = variables.PREEMPTIONS_PER_HOUR

#: The default: one interruption of any cause a day. Machine failures are rarer (6.5 in 1,000 days of a machine of 8
#: GPUs: A. Kokolis et al., Revisiting reliability in large-scale machine learning research clusters, HPCA 2025,
#: https://arxiv.org/abs/2410.21680), but lack of memory, a full disk and timeouts count too.
RATE_PER_H = 1 / 24


def read_failure_rate(environment: Mapping[str, str]) -> float:
    """Returns the expected interruptions of the job per hour. Raises UserError if the variable holds no rate."""
    text = environment.get(RATE_VARIABLE, "")
    try:
        rate = float(text) if text else RATE_PER_H
    except ValueError:
        rate = math.nan
    if not 0 < rate <= 3600:
        raise UserError(f"{RATE_VARIABLE}={text!r}: give a number above 0, such as 0.5 for one in two hours.")
    return rate
