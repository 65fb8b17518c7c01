"""Writes the results of a run: the model with its card, a sample, and the figures."""

import json
import os
from collections.abc import Callable

import torch
from torch import nn

from vgp.base import memory
from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.base.storage import files, storage
from vgp.data import bundle, task_names
from vgp.data.task import Task
from vgp.networks.shape import Workload
from vgp.protocol import environment as variables
from vgp.protocol.manifest import Manifest
from vgp.train import mlflow_run
from vgp.train.checkpoint.lease_holder import Fence
from vgp.train.loop.curves import History
from vgp.train.loop.learner import Learner
from vgp.train.loop.progress_line import throughput
from vgp.train.loop.sample_order import Plan
from vgp.train.loop.trainer_state import Average, Best
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.loop.validation_metric import LOSS
from vgp.train.mlflow_run import RunLogger
from vgp.train.processes.rank import Rank


def load_best_weights(
    step: int, plan: Plan, history: History, best: Best | None, average: Average | None
) -> bundle.Shipped:
    """Puts the weights to export into the model: of the best validation, else the average, else the last ones.

    Args:
        step: Number of completed steps.
    """
    if best and best.kept:
        best.take()
    elif average:
        average.take()
    shipped = bundle.Shipped(step=step, steps=step, planned=plan.steps, ema_decay=average.decay if average else 0.0)
    if not best:
        return shipped
    point = history.points[-1]
    return shipped.model_copy(update={
        "step": best.step if best.kept else step, "metric": best.metric, "best_step": best.step, "best": best.value,
        "last": point["validation_loss"] if best.metric == LOSS else point["metrics"].get(best.metric),
    })  # fmt: skip


def write_model(
    request: TrainingRequest, data: Manifest, learner: Learner, history: History, shipped: bundle.Shipped, rank: Rank,
    log: Callable[[str], None],
) -> None:  # fmt: skip
    """Writes the model, then a sample of its work, which may take long or fail.

    Every rank must call it. All ranks of a sharded model write the weights together; otherwise only rank 0 works, and
    the others return at once.
    """
    if learner.sharded:
        bundle.save_weights(request.model, learner.module, learner.pieces, leads=rank.leads)
    rank.exchange(None, within_s=request.config.hang_after_s)  # no rank ends while another one needs it
    if not rank.leads:
        return
    if not learner.sharded:
        bundle.save_weights(request.model, learner.module)
    card = bundle.ModelCard(
        task=task_names.spec(data.task), options=data.options, columns=data.columns, statistics=data.statistics,
        data=data.fingerprint, config=request.settings["config"], steps=shipped.steps,
        samples=request.plan.samples, parameters=learner.parameter_count(),
        history=tuple(bundle.Point(**point) for point in history.points), shipped=shipped,
    )  # fmt: skip
    bundle.save_card(request.model, card)
    if sample := sample_model(learner, request.model, log):
        bundle.save_card(request.model, card.model_copy(update={"sample": sample}))


def figures(
    request: TrainingRequest, rank: Rank, learner: Learner, history: History, work: Workload, shipped: bundle.Shipped,
    *, resumed_from: int, seconds: float, peak_bytes: int,
) -> JsonObject:  # fmt: skip
    """Returns the figures of the run; times and speeds cover this attempt only."""
    plan, last, device = request.plan, history.points[-1], device_name(rank)
    rows_per_s = (shipped.steps - resumed_from) * plan.global_batch_size / seconds
    return {
        "steps": shipped.steps, "resumed_from": resumed_from, "loss": last["loss"],
        "validation_loss": last["validation_loss"], "seconds": round(seconds, 3),
        "samples_per_s": round(rows_per_s, 1), "world_size": rank.world_size, "microbatches": plan.microbatches,
        "parameters": learner.parameter_count(), "device": device, "cpu_threads": torch.get_num_threads(),
        "peak_memory_bytes": peak_bytes,
        "planned_steps": shipped.planned, "stopped_early": shipped.steps < shipped.planned,
        "shipped_step": shipped.step, "best_metric": shipped.metric, "best_step": shipped.best_step,
        "best": shipped.best, "shipped": str(shipped),
        **({"skipped_steps": learner.scaler.skipped} if learner.scaler else {}),
        **learner.arithmetic.chosen(), "chosen": str(learner.arithmetic),
    } | throughput(work, rows_per_s, device, rank.world_size)  # fmt: skip


def write_figures(request: TrainingRequest, figures: JsonObject, log: Callable[[str], None]) -> None:
    """Writes training.json beside the checkpoints; a failure is only a warning.

    An attempt that found all steps done has no speed, so it keeps the figures of the attempt before.
    """
    if figures["resumed_from"] == figures["steps"] and _are_written(request, figures):
        return
    text = json.dumps(figures, indent=1, sort_keys=True) + "\n"
    try:
        Fence(request.fence).require_open()
        storage.overwrite(f"{request.checkpoints}/training.json", text.encode())
    except OSError as error:
        log(f"warning: training.json was not written: {error}")


def _are_written(request: TrainingRequest, figures: JsonObject) -> bool:
    """Whether training.json holds the figures that do not depend on the attempt."""
    try:
        data = storage.read(f"{request.checkpoints}/training.json", most=files.MOST_JSON_BYTES, links=False)
        written = json.loads(data)
        return all(written[name] == figures[name] for name in ("steps", "loss", "validation_loss", "shipped"))
    except (UserError, OSError, ValueError, LookupError, TypeError):
        return False


def start_tracker(request: TrainingRequest) -> RunLogger | None:
    """Starts to log the run to the MLflow server that the environment names; returns None if it names none."""
    config = request.settings["config"]
    place = request.checkpoints if storage.is_remote(request.checkpoints) else os.path.abspath(request.checkpoints)
    options = {f"options.{name}": value for name, value in config["options"].items()}
    params = {name: value for name, value in config.items() if name != "options"} | options
    tags = {"training.job": request.job, "training.checkpoints": place,
            "vgp.data": request.settings["data"], "image": os.environ.get(variables.IMAGE, ""),
            "code": os.environ.get(variables.CODE, "")}  # fmt: skip
    return mlflow_run.start_run(request.checkpoints, request.run, params, tags | request.tags)


def model_tags(request: TrainingRequest) -> dict[str, str]:
    """Returns the MLflow tag that links the run to its model."""
    return {
        mlflow_run.MODEL: mlflow_run.checksum_card(
            storage.read(f"{request.model}/{bundle.CARD}", most=files.MOST_JSON_BYTES)
        )
    }


def device_name(rank: Rank) -> str:
    return torch.cuda.get_device_name() if rank.device.type == "cuda" else f"cpu ({os.cpu_count()} cores)"


def whole_model(learner: Learner, directory: str) -> nn.Module | None:
    """Returns the whole trained model on this rank; None if a sharded model does not fit into its memory.

    Args:
        directory: Folder of the written model, from which the weights of a sharded model are read.
    """
    if not learner.sharded:
        return learner.module
    tensors = learner.module.state_dict().values()
    needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    free, device = [memory.free_bytes()], learner.rank.device
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        free.append(torch.cuda.mem_get_info(device)[0] + unused)
    if needed > min(free):
        return None
    module = learner.task.model(learner.data)
    bundle.load_weights(directory, module)
    return module


def sample_model(learner: Learner, directory: str, log: Callable[[str], None]) -> str:
    """Returns the task's sample of the finished model, and logs it; an error in it is logged only."""
    if type(learner.task).sample is Task.sample:
        return ""
    try:
        module = whole_model(learner, directory)
        if module is None:
            log("no sample of the model: the whole model does not fit on one device")
            return ""
        text = learner.task.sample(module.to(learner.rank.device).eval(), learner.data)
    except Exception as error:
        log(f"no sample of the model: {type(error).__name__}: {error}")
        return ""
    if text:
        log(f"\nSample of the model's output:\n{text}\n")
    return text
