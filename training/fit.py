"""One call that trains: checks everything without torch, then starts the processes."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from training import tasks
from training.checkpoint import recovery
from training.checkpoint.manifest import Manifest as Checkpoint
from training.checkpoint.manifest import require_same
from training.checkpoint.store import Store, store_at
from training.config import TrainConfig
from training.data import manifest as manifests
from training.data.manifest import Manifest
from training.errors import ProcessFailed, UserError
from training.loop.order import count_microbatches
from training.processes import cluster as clusters
from training.processes.launch import launch
from training.storage import storage
from training.storage.objects import Folder

#: What Vertex AI names a custom job by, the same on every replica and at every restart.
_JOB_VARIABLE = "CLOUD_ML_JOB_ID"


def train(
    config: TrainConfig, *, data: str | Path, model: str | Path, checkpoints: str | Path, nproc: int | None = None,
    job: str = "",
) -> dict[str, Any]:  # fmt: skip
    """Trains the task that prepared `data` and writes the model; resumes from `checkpoints` if it holds any.

    Args:
        data: Folder of a prepared dataset.
        model: Folder for the model (`training.bundle`); only global rank 0 writes it.
        checkpoints: Folder for checkpoints, `training.json` and TensorBoard logs, on this machine, under /gcs or
            gs://bucket/folder; give the same one to resume.
        nproc: Processes on this machine; default: TRAINING_NPROC, else one per GPU, else 1.
        job: Names what is started here, the same when it is started again after a failure: with resume=never only
            checkpoints of the same job count. Default: the id of the custom job on Vertex AI, else none.

    Returns:
        steps, loss, validation_loss, seconds, samples_per_s, world_size...; empty on machines without rank 0.

    Raises:
        UserError: something that was given is wrong, or the loss is no longer a number.
        Preempted: SIGTERM or SIGINT came and the state is saved.
        ProcessFailed: a training process failed or was killed; or the store of the checkpoints could not be reached
            for `checkpoint_patience_s`.
    """
    local = clusters.process_count(nproc, os.environ)
    prepared = manifests.load(data)
    samples = _checked(config, prepared, data)
    place, job = storage.uri(checkpoints), job or os.environ.get(_JOB_VARIABLE, "")
    _require_writable(model)
    try:
        _require_writable_store(place, config)
        source, run, resume_run = _source(config, store_at(place, deadline_s=config.checkpoint_patience_s), job)
        argument = _argument(config, prepared, samples, _world_size(local), source, resume_run)
    except ConnectionError as error:
        raise ProcessFailed(f"{error} (checkpoint_patience_s={config.checkpoint_patience_s:g})") from None
    argument |= {
        "data": str(data), "model": str(model), "checkpoints": place, "run": run, "job": job,
        "tensorboard": f"{place}/tensorboard", "token": os.urandom(4).hex(),
    }  # fmt: skip
    figures = launch(
        "training.loop.trainer:run",
        argument,
        nproc=local,
        rendezvous_timeout_s=config.rendezvous_timeout_s,
        lost_after_s=config.lost_after_s,
        hang_after_s=config.hang_after_s,
    )
    return figures or {}


def _checked(config: TrainConfig, prepared: Manifest, data: str | Path) -> int:
    """Rows of the training split, once the data is known to suit the configuration."""
    if tasks.spec(config.task) != tasks.spec(prepared.task):
        raise UserError(f"{data} was prepared for task {prepared.task}, not {config.task}; prepare it again.")
    tasks.load(prepared.task, prepared.options)
    samples = prepared.rows("train")
    if not samples:
        raise UserError(f"{data} has no rows in its split 'train'; it has {_counts(prepared)}.")
    if config.warm_start:
        from training.bundle import load_card

        load_card(config.warm_start)
    return samples


def _counts(prepared: Manifest) -> str:
    return ", ".join(f"{prepared.rows(split)} in {split!r}" for split in prepared.splits) or "no splits"


def _require_writable_store(place: str, config: TrainConfig) -> None:
    if storage.is_remote(place):
        Folder(place, deadline_s=config.checkpoint_patience_s).require_writable()
    else:
        _require_writable(place)


def _require_writable(folder: str | Path) -> None:
    if storage.is_remote(str(folder)):
        raise UserError(f"{folder}: the model must go to a folder, such as /gcs/BUCKET/NAME where it is mounted.")
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"x")
    except OSError as error:
        raise UserError(f"{folder} cannot be written to: {error.strerror}.") from None


def _world_size(local: int) -> int:
    if clusters.started_by_torchrun(os.environ):
        return int(os.environ["WORLD_SIZE"])
    return clusters.cluster(os.environ).nodes * local


def _source(config: TrainConfig, own: Store, job: str) -> tuple[Store, int, int]:
    """Where to resume from, the number of this run in its own folder, and of the run to go on from (-1 = none)."""
    newest = recovery.newest_run(own)
    if config.resume == "never" and not _is_of(own, newest, job):
        return own, newest + 1, -1
    if config.resume in ("auto", "never") or newest >= 0:  # a retry goes on from its own, wherever it came from
        return own, max(newest, 0), newest
    other = store_at(config.resume, deadline_s=config.checkpoint_patience_s)
    found = recovery.newest_run(other)
    if found < 0:
        raise UserError(f"resume={config.resume}: there are no checkpoints; give auto, never or a folder with some.")
    return other, 0, found


def _is_of(store: Store, run: int, job: str) -> bool:
    """Whether the run's checkpoints were written by an earlier attempt of this same job."""
    newest = _newest_manifest(store, run) if job else None
    return newest is not None and newest.job == job


def _argument(
    config: TrainConfig, prepared: Manifest, samples: int, world_size: int, source: Store, resume_run: int
) -> dict[str, Any]:
    """The plan of the run and the settings that its checkpoints are held to."""
    newest = _newest_manifest(source, resume_run)
    then = newest.settings if newest else {}
    dealt = config.microbatches or _dealt_then(then, config)
    dealt = dealt or count_microbatches(0, world_size, config.global_batch_size)
    if dealt < world_size:
        raise UserError(
            f"microbatches={dealt} cannot be dealt to {world_size} processes: each needs at least one. "
            f"Take at most {dealt} processes, or at least {world_size} microbatches."
        )
    if config.exact and (dealt & (dealt - 1) or world_size & (world_size - 1)):
        raise UserError(
            f"exact=true needs powers of two, not {dealt} microbatches on {world_size} processes: "
            "set microbatches to 4, 8, 16... and take 1, 2, 4, 8... processes."
        )
    chosen = config.mathematical() | {"task": tasks.spec(config.task), "options": prepared.options}
    settings = {"config": chosen | {"microbatches": dealt}, "microbatches": dealt, "data": prepared.fingerprint,
                "samples": samples}  # fmt: skip
    if then:
        require_same(then, settings, str(source))
    plan = {"samples": samples, "epochs": config.epochs, "global_batch_size": config.global_batch_size,
            "microbatches": dealt, "seed": config.seed}  # fmt: skip
    return {"config": config.model_dump(), "plan": plan, "settings": settings, "resume_from": str(source),
            "resume_run": resume_run}  # fmt: skip


def _dealt_then(settings: Mapping[str, Any], config: TrainConfig) -> int:
    """The number of microbatches of the run to go on from; 0 if there is none."""
    dealt = settings.get("microbatches")
    return dealt if type(dealt) is int and 0 < dealt <= config.global_batch_size else 0


def _newest_manifest(store: Store, run: int) -> Checkpoint | None:
    """Of the newest checkpoint of the run that can be read; its parts may be damaged."""
    for name in recovery.committed(store, run):
        try:
            return recovery.read_manifest(store, name)
        except recovery.Damaged:
            continue
    return None
