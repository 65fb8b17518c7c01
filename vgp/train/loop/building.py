"""The model that a rank trains: whole, or its share of it, as the seed makes it."""

from dataclasses import dataclass
from functools import partial

from torch import nn

from vgp.data.task import Task
from vgp.protocol.manifest import Manifest
from vgp.train.config import TrainConfig
from vgp.train.loop import deferred, freezing, gradients, recording, seeding, shards
from vgp.train.loop.gradients import Gradients, Loss
from vgp.train.loop.memory import return_what_is_freed
from vgp.train.loop.order import seed_of
from vgp.train.processes.rank import Rank


@dataclass(frozen=True)
class Built:
    """A new model, its weights those of the seed."""

    module: nn.Module
    #: Names of the parameters that the setting `freeze` keeps as they are.
    frozen: list[str]
    #: Why a sharded model was first made whole on every rank; "" = it was not.
    made_whole: str = ""


def whole(task: Task, data: Manifest, config: TrainConfig, rank: Rank) -> Built:
    """The model, all of it on this rank's device."""
    module = _new_model(task, data, config).to(rank.device)
    return Built(module, freezing.freeze(module, config.freeze))


def sharded(task: Task, data: Manifest, config: TrainConfig, rank: Rank, patience_s: float) -> tuple[Built, Gradients]:
    """The model cut over all ranks, its values those of the whole one, which there is nowhere if that can be.

    Args:
        patience_s: How long ranks wait for one that works alone on its model.
    """
    return_what_is_freed()
    recorded: deferred.Deferred | None = None
    why = ""
    try:
        recorded = deferred.build(partial(_new_model, task, data, config))
    except recording.Unrecordable as error:
        why = str(error)
    made_whole = next(filter(None, rank.exchange(why, within_s=patience_s)), "")
    if made_whole:
        recorded = None
    module = recorded.module if recorded else _new_model(task, data, config)
    frozen = freezing.freeze(module, config.freeze)
    cut = gradients.choose(Loss(module, task.loss), task.blocks(module), config, rank)
    if recorded:
        shards.fill(module, recorded, rank, on_cpu=config.cpu_offload)
    return Built(module, frozen, made_whole), cut


def _new_model(task: Task, data: Manifest, config: TrainConfig) -> nn.Module:
    """The task's model on the CPU, as the seed makes it."""
    seeding.seed_everything(seed_of(config.seed, "model"))
    return task.model(data)
