"""Training in one call: checks without torch, then the processes. Also the choice of a step's checkpoint folder."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import StoreDown, UserError
from vgp.base.storage import storage
from vgp.base.storage.objects import Folder
from vgp.data import bundle, task_names, tasks
from vgp.data.bundle import ModelCard
from vgp.data.task import Task
from vgp.protocol import environment as variables
from vgp.protocol import manifest, run_folder
from vgp.protocol.capacity.control import JOB_VARIABLE
from vgp.protocol.capacity.watcher import followed
from vgp.protocol.cluster import cluster, process_count, started_by_torchrun
from vgp.protocol.manifest import Manifest
from vgp.train import warm_start_files
from vgp.train.checkpoint.checkpoint_store import store_at
from vgp.train.checkpoint.lease import hold_lease
from vgp.train.checkpoint.lease_holder import Owner, clock
from vgp.train.loop import validation_metric
from vgp.train.loop.sample_order import Plan, Schedule
from vgp.train.loop.training_request import Start, TrainingRequest, find_start, plan_run, read_failure_rate, world_sizes
from vgp.train.processes.launch import launch
from vgp.train.profile_settings import require_within
from vgp.train.train_config import OPERATIONAL, TrainConfig
from vgp.train.warm_start_files import Weights

#: The image of this machine, and the step's image if this rung of its ladder has another one. The checkpoint folder
#: depends on the step's image, so that it is the same on every rung.
IMAGE_VARIABLE, STEP_IMAGE_VARIABLE = variables.IMAGE, variables.STEP_IMAGE


@dataclass(frozen=True)
class CheckpointPlace:
    """The checkpoint folder of a step."""

    folder: str
    #: The job that the checkpoints belong to, the same for all attempts of a run; "" for a folder from the user.
    job: str = ""
    #: The holder of the folder's lease; None for a folder from the user.
    owner: Owner | None = None


def checkpoint_place(
    output: str, settings: TrainConfig, prepared: Manifest, environment: Mapping[str, str], pins: str = ""
) -> CheckpointPlace:
    """Returns the checkpoint folder of a step.

    Its name holds a checksum of everything that decides the result. A retry of a failed request finds its folder again;
    steps that compute something else, such as the iterations of a loop, get other folders. Without pins, only the
    attempts of one run share a folder.

    Args:
        pins: The data's pins without their time; "" = none.
    """
    run = run_folder.parse(output)
    shared = run_folder.checkpoints(output, environment)
    if run and not pins and not environment.get(run_folder.CHECKPOINTS_VARIABLE):
        shared = strip_task_id(output)
    if not shared:
        return CheckpointPlace(output)
    decisive = settings.model_dump(exclude=set(OPERATIONAL), exclude_defaults=True)
    image = environment.get(STEP_IMAGE_VARIABLE) or environment.get(IMAGE_VARIABLE, "")
    code = environment.get(variables.CODE, "")
    text = json.dumps([decisive, prepared.fingerprint, pins, image, *([code] if code else [])], sort_keys=True)
    task = Path(output).parent.name
    folder = f"{shared.rstrip('/')}/{run.step if run else task}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    if run:
        return CheckpointPlace(folder, f"{run.run}/{run.step}", Owner(run.run, task))
    return CheckpointPlace(folder, folder, Owner(Path(shared).parent.name, output))


def strip_task_id(path: str) -> str:
    """Removes the task id from a path of Vertex Pipelines; returns any other path unchanged.

    Vertex Pipelines writes to <root>/<project number>/<run>/<step>_<task id>/<output>.
    """
    return re.sub(r"_-?\d{6,}(?=/[^/]+/?$)", "", path)


def train(
    config: TrainConfig, *, data: str | Path, model: str | Path, checkpoints: str | Path, nproc: int | None = None,
    job: str = "", owner: Owner | None = None, warm_start_pins: str = "", tags: Mapping[str, str] | None = None,
) -> JsonObject:  # fmt: skip
    """Trains the task that prepared `data` and writes the model; resumes from the checkpoints in `checkpoints`, if any.

    Args:
        data: Folder of a prepared dataset.
        model: Folder for the model (`vgp.data.bundle`); only global rank 0 writes it.
        checkpoints: Folder for checkpoints, `training.json` and TensorBoard logs: a local folder, one under /gcs or
            gs://bucket/folder; pass the same one to resume.
        nproc: Processes on this machine; default: TRAINING_NPROC, else one per GPU, else 1.
        job: Name of this job, the same for its retries: resume=never ignores checkpoints of other jobs. Default: the id
            of the custom job on Vertex AI, else none.
        owner: The holder of the checkpoint folder's lease; a folder has one writer. Default: the custom job.
        warm_start_pins: URI of the pins of the weights at `config.warm_start`; "" = read the current files.
        tags: Tags of the run on the MLflow server, if the environment names a server.

    Returns:
        steps, loss, validation_loss, seconds, samples_per_s, world_size...; empty on machines without rank 0.

    Raises:
        UserError: an argument is wrong, the loss is not finite, or another live run writes to `checkpoints`.
        Preempted: SIGTERM or SIGINT came and the state is saved; or the launcher of the job chose another job or is
            gone (`vgp.protocol.capacity`).
        MachineLost: another machine of the job is gone or never came.
        ProcessFailed: a training process failed or was killed; the checkpoint store was unreachable for
            `checkpoint_patience_s`; or another run took `checkpoints` over while this run was paused.
    """
    asked_at, local = clock(), process_count(nproc, os.environ)
    prepared = manifest.load(data)
    by_torchrun = started_by_torchrun(os.environ)
    world_size = int(os.environ["WORLD_SIZE"]) if by_torchrun else cluster(os.environ).nodes * local
    task = _check(config, prepared, data, world_size)
    warm_start = _warm_start(config, task, prepared, warm_start_pins) if config.warm_start else None
    folder, job = storage.uri(checkpoints), job or os.environ.get(JOB_VARIABLE, "")
    owner = owner or Owner(task=job)
    with ExitStack() as stack:
        begins_at = clock()
        watcher = stack.enter_context(followed(os.environ, leads=_leads()))
        asked_at += clock() - begins_at  # time in the queue does not count as startup time
        _require_writable(model)
        try:
            if storage.is_remote(folder):
                Folder(folder, deadline_s=config.checkpoint_patience_s).require_writable()
            else:
                _require_writable(folder)
            lease = None
            if _leads():  # the first machine holds the lease for all
                lease = stack.enter_context(
                    hold_lease(folder, owner, length_s=config.lease_s, patience_s=config.checkpoint_patience_s)
                )
            request = _request(config, prepared, task, warm_start, world_size, job, data=data, model=model,
                               folder=folder, fence=lease.fence if lease else "", tags=tags or {},
                               asked_at=asked_at)  # fmt: skip
        except StoreDown as error:
            raise StoreDown(f"{error} (checkpoint_patience_s={config.checkpoint_patience_s:g})") from None
        figures = launch(
            "vgp.train.loop.trainer:run", request, nproc=local, rendezvous_timeout_s=config.rendezvous_timeout_s,
            lost_after_s=config.lost_after_s, hang_after_s=config.hang_after_s, condition=lease, notice=watcher,
        )  # fmt: skip
    return figures or {}


def _leads() -> bool:
    """Whether this is the job's first machine or, under torchrun, its first process."""
    if started_by_torchrun(os.environ):
        return os.environ["RANK"] == "0"
    place = cluster(os.environ)
    return place.trains and place.node == 0


def _request(
    config: TrainConfig, prepared: Manifest, task: Task, warm_start: Weights | None, world_size: int, job: str, *,
    data: str | Path, model: str | Path, folder: str, fence: str, tags: Mapping[str, str], asked_at: float,
) -> TrainingRequest:  # fmt: skip
    """Builds the request for all ranks, including the checkpoint to resume from."""
    patience_s = config.checkpoint_patience_s
    checkpoint_store = store_at(folder, deadline_s=patience_s)
    run, source, start = find_start(
        config, checkpoint_store, partial(store_at, config.resume, deadline_s=patience_s), job
    )
    plan, settings, resumed = plan_run(
        config, prepared, task_names.spec(config.task), world_size, source, start,
        elsewhere=world_sizes(os.environ), weights=warm_start.fingerprint() if warm_start else {},
    )  # fmt: skip
    return TrainingRequest(
        config=config, plan=plan, settings=settings, data=str(data), model=str(model), checkpoints=folder, run=run,
        job=job, fence=fence, launch_id=os.urandom(4).hex(), start=Start(folder=str(source), run=start),
        begun=resumed, warm_start=warm_start, tags=dict(tags), asked_at=asked_at,
    )  # fmt: skip


def _check(config: TrainConfig, prepared: Manifest, data: str | Path, world_size: int) -> Task:
    """Returns the task. Raises UserError unless the data and the number of processes suit the configuration."""
    if task_names.spec(config.task) != task_names.spec(prepared.task):
        raise UserError(f"{data} was prepared for task {prepared.task}, not {config.task}; prepare it again.")
    task = tasks.load(prepared.task, prepared.options)
    rows = {split: prepared.rows(split) for split in prepared.splits}
    if not rows.get("train"):
        raise UserError(f"{data} has no rows in its split 'train'; it has {validation_metric.format_counts(rows)}.")
    validation_metric.require_rows(config, task, rows)
    steps = Plan(prepared.rows("train"), config.epochs, config.global_batch_size, 1, config.seed).steps
    Schedule(config, steps, task).check()
    read_failure_rate(os.environ)
    require_within(config.profile_steps, config.profile_ranks, steps, world_size)
    return task


def _warm_start(config: TrainConfig, task: Task, prepared: Manifest, pins: str) -> Weights:
    """Returns the initial weights. Raises UserError if they are unreadable or their model's architecture differs."""
    initial = warm_start_files.open_weights(config.warm_start, pins)
    if initial.has_card:
        _check_architecture(task, prepared, bundle.load_card(pins or config.warm_start), config.warm_start)
    return initial


def _check_architecture(task: Task, prepared: Manifest, card: ModelCard, model: str) -> None:
    """Raises UserError if the weights may fit but mean something else, for example with other attention heads."""
    if task_names.spec(card.task) != task_names.spec(prepared.task):
        return
    here, there = task.architecture(prepared), tasks.load(card.task, card.options).architecture(card.manifest())
    if here != there:
        raise UserError(
            f"warm_start={model}: that model has {_format_fields(there)}, this task has {_format_fields(here)}: its "
            "weights would mean something else. Prepare the data with the task_options of that model."
        )


def _format_fields(values: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "no such field"


def _require_writable(folder: str | Path) -> None:
    if storage.is_remote(str(folder)):
        raise UserError(f"{folder}: the model must go to a local or mounted folder, such as /gcs/BUCKET/NAME.")
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
    except OSError as error:
        raise UserError(f"{folder} cannot be written to: {error.strerror}.") from None
