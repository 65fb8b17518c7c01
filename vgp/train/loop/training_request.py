"""What a run is asked for, decided once on rank 0 before torch is imported, and read by every rank."""

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
from vgp.train.checkpoint.manifest import Manifest as Checkpoint
from vgp.train.checkpoint.manifest import require_same
from vgp.train.checkpoint.store import Store
from vgp.train.config import OPEN, TrainConfig, check_assignment
from vgp.train.loop.order import Plan, count_microbatches
from vgp.train.weights import Weights

#: The processes of every rung that a step's launcher may start it on, such as 8,16.
WORLD_SIZES_VARIABLE = variables.WORLD_SIZES


class Start(BaseModel):
    """Whose checkpoints a run goes on from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: The folder, and the number of the run in it; -1 = none.
    folder: str
    run: int


class TrainingRequest(BaseModel):
    """A run: its configuration and plan, where it reads and writes, and where it starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: TrainConfig
    plan: Plan
    #: What checkpoints are held to: a resume must have the same.
    settings: JsonObject
    #: Folders of the prepared dataset, of the model, and of checkpoints and logs (a URI where they lie in a bucket).
    data: str
    model: str
    checkpoints: str
    #: The number of this run in its folder of checkpoints.
    run: int
    #: What was started, where that has a name: the same when it is started again after a failure.
    job: str
    #: The file of the fence that is open while the folder of checkpoints is ours; "" = there is none.
    fence: str = ""
    #: Names the parts that this launch saves.
    launch_id: str
    #: When the program was asked for it, by the clock of rank 0's machine (`vgp.train.checkpoint.holder.clock`).
    asked_at: float = 0.0
    start: Start
    #: The weights that it begins with, where it begins.
    warm_start: Weights | None = None
    #: What was chosen of `precision`, `compile` and `deterministic` when the run began that is gone on with.
    begun: JsonObject = {}
    #: What else is told of the run where it is tracked, such as its pins.
    tags: dict[str, str] = {}

    def settled(self, config: TrainConfig) -> "TrainingRequest":
        """The same with nothing left open: what checkpoints, the model's card and the figures tell."""
        fields = self.settings["config"] | {name: getattr(config, name) for name in OPEN}
        return self.model_copy(update={"config": config, "settings": self.settings | {"config": fields}})


def start_of(config: TrainConfig, own: Store, named: Callable[[], Store], job: str) -> tuple[int, Store, int]:
    """The number of this run in its `own` store; the store and the run to go on from, -1 = none.

    Args:
        named: The store that `resume` names, where it names one.

    Raises:
        UserError: that store holds no checkpoints.
    """
    newest = recovery.newest_run(own)
    if config.resume == "never" and not _is_of(own, newest, job):
        return newest + 1, own, -1
    if config.resume in ("auto", "never") or newest >= 0:  # a retry goes on from its own, wherever it came from
        return max(newest, 0), own, newest
    other = named()
    run = recovery.newest_run(other)
    if run < 0:
        raise UserError(f"resume={config.resume}: there are no checkpoints; give auto, never or a folder with some.")
    return 0, other, run


def planned(
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
    """The plan of the run, the settings that its checkpoints are held to, and what was chosen when it began.

    Args:
        elsewhere: Other numbers of processes that the run may have to go on with.
        weights: The fingerprint of those that it began with.
        source: The store of the checkpoints to go on from, which are those of `run`.

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
        # Those of an exact run never change, so they suit the largest number of processes from the first step on.
        largest = max(world_size, *elsewhere) if config.exact and elsewhere else world_size
        microbatches = count_microbatches(largest, config.global_batch_size, exact=config.exact)
    check_assignment(microbatches, world_size, config.exact)
    for other in sorted({*elsewhere} - {world_size}) if config.exact or config.microbatches else ():
        check_assignment(microbatches, other, config.exact, where=f" ({WORLD_SIZES_VARIABLE}: a rung has so many)")
    begun = _chosen_then(then, config)
    fields = config.mathematical() | {"task": task, "options": data.options, "microbatches": microbatches} | begun
    samples = data.rows("train")
    settings = {"config": fields, "microbatches": microbatches, "data": data.fingerprint, "samples": samples}
    if weights:
        settings["warm_start"] = dict(weights)
    if before and before < microbatches and not config.microbatches:
        then = _with_microbatches(then, microbatches)
    if then:
        require_same(then, settings, str(source))
    return Plan(samples, config.epochs, config.global_batch_size, microbatches, config.seed), settings, begun


def _settings_then(newest: Checkpoint | None) -> JsonObject:
    """Returns the settings of a checkpoint, with its task called as it is called now."""
    if newest is None:
        return {}
    config = newest.settings.get("config", {})
    named = {"task": task_names.spec(config["task"])} if isinstance(config.get("task"), str) else {}
    return {**newest.settings, "config": {**config, **named}}


def world_sizes(environment: Mapping[str, str]) -> list[int]:
    """The numbers of processes of all rungs that the step may run on; empty where nobody says."""
    text = environment.get(WORLD_SIZES_VARIABLE, "")
    sizes = [part.strip() for part in text.split(",") if part.strip()]
    if not all(re.fullmatch("[1-9][0-9]{0,5}", size) for size in sizes):
        raise UserError(f"{WORLD_SIZES_VARIABLE}={text!r}: give the processes of every rung, such as 8,16.")
    return [int(size) for size in sizes]


def _is_of(store: Store, run: int, job: str) -> bool:
    """Whether the run's checkpoints were written by an earlier attempt of this same job."""
    newest = _newest_manifest(store, run) if job else None
    return newest is not None and newest.job == job


def _with_microbatches(settings: JsonObject, microbatches: int) -> JsonObject:
    """The settings of the run to go on from, had it had so many microbatches: more processes than it had go on."""
    config = settings.get("config")
    changed = {"config": config | {"microbatches": microbatches}} if isinstance(config, dict) else {}
    return settings | changed | {"microbatches": microbatches}


def _chosen_then(settings: JsonObject, config: TrainConfig) -> JsonObject:
    """What the run to go on from chose, of what is left open now; other settings of it are compared."""
    then = settings.get("config")
    left_open = [name for name in OPEN if getattr(config, name) == "auto"]
    values = {name: then[name] for name in left_open if name in then} if isinstance(then, dict) else {}
    return {name: value for name, value in values.items() if value != "auto" and _is_value(name, value)}


def _is_value(name: str, value: object) -> bool:
    return value in ("fp32", "bf16", "fp16") if name == "precision" else value is True or value is False


def _newest_manifest(store: Store, run: int) -> Checkpoint | None:
    """Of the newest checkpoint of the run that can be read; its parts may be damaged."""
    for name in recovery.committed(store, run):
        try:
            return recovery.read_manifest(store, name)
        except recovery.Damaged:
            continue
    return None


#: The launcher's word on how often the whole job is interrupted.
RATE_VARIABLE = variables.PREEMPTIONS_PER_HOUR

#: Without one: a day between two ends of any cause. Machines that fail are rarer (6.5 in 1,000 days of a machine of 8
#: GPUs: A. Kokolis et al., Revisiting reliability in large-scale machine learning research clusters, HPCA 2025,
#: https://arxiv.org/abs/2410.21680), but a process that runs out of memory, a full disk and a timeout count as well.
RATE_PER_H = 1 / 24


def rate_per_h(environment: Mapping[str, str]) -> float:
    """How often an hour the job is expected to be interrupted. Raises UserError if the variable holds no rate."""
    text = environment.get(RATE_VARIABLE, "")
    try:
        rate = float(text) if text else RATE_PER_H
    except ValueError:
        rate = math.nan
    if not 0 < rate <= 3600:
        raise UserError(f"{RATE_VARIABLE}={text!r}: give a number above 0, such as 0.5 for one in two hours.")
    return rate
