"""Sets the initial state of a run: the newest checkpoint that is intact and finite, else the weights of a warm start.

The ranks read a checkpoint together, each byte once. They verify it while they read, so part of a damaged checkpoint
may be in the model when the damage is found: `Learner.spoilt`. Ranks wait for a reading rank without a collective,
whose timeout would end them.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from vgp.base.exits import StoreDown, UserError
from vgp.base.storage import download, storage
from vgp.base.storage.files import CHECKSUM_BLOCK as BLOCK
from vgp.base.text.printable import join_names
from vgp.data.task import Task
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.block_reader import raise_damage
from vgp.train.checkpoint.checkpoint_manifest import Manifest
from vgp.train.checkpoint.checkpoint_reader import CheckpointReader
from vgp.train.checkpoint.checkpoint_store import Store, store_at
from vgp.train.checkpoint.training_state import own_rows
from vgp.train.loop.learner import Learner
from vgp.train.loop.optimizers import matching_names, require_matches
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import SLOWEST_BYTES_PER_S, Rank
from vgp.train.train_config import TrainConfig
from vgp.train.warm_start_files import Weights, WeightsFile


def restore_newest(request: TrainingRequest, rank: Rank, learner: Learner) -> Manifest | None:
    """Restores the newest intact checkpoint into `learner`; returns its manifest, or None without a checkpoint.

    Raises:
        StoreDown: the store was unreachable for `checkpoint_patience_s` seconds.
        UserError: checkpoints are intact, but all of their states had diverged.
    """
    patience_s = request.config.checkpoint_patience_s
    source = store_at(request.start.folder, deadline_s=patience_s)
    try:
        return _restore_newest(request.start.run, rank, learner, source, patience_s + request.config.hang_after_s)
    except StoreDown as error:
        raise StoreDown(f"{error} (checkpoint_patience_s={patience_s:g})") from None


def _restore_newest(run: int, rank: Rank, learner: Learner, source: Store, within_s: float) -> Manifest | None:
    names = rank.exchange(recovery.list_manifests(source, run) if rank.leads and run >= 0 else [], within_s=within_s)[0]
    diverged = ""
    for name in names:
        try:
            manifest = _manifest(source, name, rank, within_s)
            learner.restore(CheckpointReader(source, manifest, rank, within_s=within_s + BLOCK / SLOWEST_BYTES_PER_S))
            reason = next(filter(None, rank.exchange(_divergence(name, learner), within_s=within_s)), "")
            if not reason:
                return manifest
            diverged = reason
        except recovery.Damaged as damage:
            reason = str(damage)
        if rank.leads:
            print(f"checkpoint skipped: {reason}", file=sys.stderr, flush=True)
    if diverged:
        raise UserError(
            f"training cannot resume from any checkpoint in {source}: {diverged}. Start anew with resume=never and a "
            "lower learning_rate, or give another folder."
        )
    return None


def _manifest(source: Store, name: str, rank: Rank, within_s: float) -> Manifest:
    """Reads a manifest on one rank for all. Raises Damaged on every rank."""
    text = damage = ""
    if rank.leads:
        try:
            text = recovery.read_manifest(source, name).encode().decode()
        except recovery.Damaged as error:
            damage = str(error)
    text, damage = rank.exchange([text, damage], within_s=within_s)[0]
    raise_damage([damage])
    return Manifest.decode(text.encode())


def _divergence(name: str, learner: Learner) -> str:
    """Returns a sentence about values of the restored state that are not finite; "" if all are finite."""
    broken = sorted(learner.broken())
    return f"{name} holds values that are not finite ({', '.join(broken[:3])}): training had diverged" if broken else ""


def landing_difference(
    checkpoint: Manifest, config: TrainConfig, world_size: int, device: str, microbatches: int
) -> str:
    """Returns a sentence on how the resumed run differs from an uninterrupted one; "" if it does not.

    Args:
        device: The type of device of this run, as in `Manifest.device`.
    """
    before, is_moved = len(checkpoint.parts), bool(checkpoint.device) and checkpoint.device != device
    if before == world_size and not is_moved:
        return ""
    source = f"saved by {processes(before)}" + (f" on {checkpoint.device}" if is_moved else "")
    target = f"resumed by {processes(world_size)}" + (f" on {device}" if is_moved else "")
    uneven = f"; {microbatches} microbatches on {world_size}: some compute one more, and the others wait"
    note = uneven if microbatches % world_size else ""
    return f"{source}, {target}: {_describe_consequence(config.exact, is_moved)}{note}"


def _describe_consequence(exact: bool, moved: bool) -> str:
    if exact and not moved:
        return "the result has the bits of an uninterrupted run (exact=true)"
    if exact:
        return "sums keep their order, but another type of device may round them differently"
    return "sums of gradients have another order, so last digits differ from an uninterrupted run"


def processes(count: int) -> str:
    return f"{count} process" if count == 1 else f"{count} processes"


@dataclass
class Match:
    """The mapping of tensors in the model to tensors in the files, and the names that do not match."""

    #: Names in the model -> names in the files.
    taken: dict[str, str] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)


def take_weights(
    module: nn.Module, weights: Weights, task: Task, config: TrainConfig, rank: Rank, patience_s: float
) -> Match:
    """Replaces the weights of a model, whole or sharded; every rank must call it.

    Raises:
        UserError: the weights do not fit or cannot be read.
    """
    tensors = {name: t for name, t in module.state_dict(keep_vars=True).items() if isinstance(t, Tensor)}
    match = match_weights(tensors, weights, task, config)
    with torch.no_grad():
        for number, file in enumerate(weights.files):
            names = {here: there for here, there in match.taken.items() if weights.tensors[there].file == number}
            if names:
                with _local_copy(file, rank, patience_s) as path:
                    _fill(tensors, names, path, file)
    return match


def match_weights(tensors: Mapping[str, Tensor], weights: Weights, task: Task, config: TrainConfig) -> Match:
    """Matches the model's tensors to those of the files by name.

    Raises:
        UserError: tensors are missing, unexpected or of another form; the message lists them.
    """
    require_matches("warm_start_new", config.warm_start_new, tensors)
    require_matches("warm_start_ignore", config.warm_start_ignore, weights.tensors)
    require_matches("warm_start_names", [f"{prefix}*" for prefix in config.warm_start_names], tensors)
    rename, match = _renaming(task, config), Match()
    used = set(matching_names(weights.tensors, config.warm_start_ignore))
    for names in _aliases(tensors):
        renamed = {name: other for name in names if (other := rename(name)) is not None}
        used.update(renamed.values())
        present = [(name, other) for name, other in renamed.items() if other in weights.tensors]
        if matching_names(names, config.warm_start_new) or not renamed:
            match.new.append(names[0])
        elif not present:
            match.missing.append(names[0])
        else:
            _compare(tensors, weights, *present[0], match)
    match.unexpected = sorted(weights.tensors.keys() - used)
    if match.missing or match.unexpected or match.unlike:
        raise UserError(_describe_mismatch(weights, match))
    if not match.taken:
        raise UserError(
            f"warm_start={weights.source}: every tensor of the model is new, so the warm start would have no effect."
        )
    return match


def _compare(tensors: Mapping[str, Tensor], weights: Weights, name: str, source: str, match: Match) -> None:
    there, here = weights.tensors[source], tensors[name]
    if there.shape != tuple(here.shape):
        match.unlike.append(f"{name}: {list(there.shape)} there, {list(here.shape)} here")
    elif there.is_float != here.is_floating_point():
        match.unlike.append(f"{name}: {there.dtype} there, {str(here.dtype).removeprefix('torch.')} here")
    else:
        match.taken[name] = source


def _aliases(tensors: Mapping[str, Tensor]) -> list[list[str]]:
    """Returns the names of each tensor; tied weights have several."""
    names: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        names.setdefault(id(tensor), []).append(name)
    return list(names.values())


def _renaming(task: Task, config: TrainConfig) -> Callable[[str], str | None]:
    """Returns a function from a tensor's name in the model to its name in the files (None = new)."""
    prefixes = sorted(config.warm_start_names, key=len, reverse=True)

    def rename(name: str) -> str | None:
        for prefix in prefixes:
            if name.startswith(prefix):
                return config.warm_start_names[prefix] + name[len(prefix) :]
        return task.warm_name(name)

    return rename


def _describe_mismatch(weights: Weights, match: Match) -> str:
    parts = {
        "missing": match.missing, "not in the model": match.unexpected, "of another form": match.unlike,
    }  # fmt: skip
    lines = [f"  {problem}: {join_names(names)}" for problem, names in parts.items() if names]
    return "\n".join(
        [f"warm_start={weights.source} does not fit the model that the task builds:", *lines, *_advice(match)]
    )


def _advice(match: Match) -> Iterator[str]:
    """Yields hints: a prefix that may solve the mismatch, and the settings for new, ignored and renamed tensors."""
    for here in match.missing[:1]:
        prefixes = {there[: -len(here)] for there in match.unexpected if there.endswith(f".{here}")}
        for prefix in sorted(prefixes)[:1]:
            yield f'Names in the files begin with {prefix}. Did you mean warm_start_names={{"": "{prefix}"}}?'
        shorter = [there for there in match.unexpected if here.endswith(f".{there}")]
        for there in shorter[:1]:
            prefix = here[: -len(there)]
            yield f'Names in the model begin with {prefix}. Did you mean warm_start_names={{"{prefix}": ""}}?'
    yield (
        "List new tensors in warm_start_new and tensors to ignore in warm_start_ignore (patterns such as head.*); map "
        "names that differ with warm_start_names or the task's warm_name."
    )


def _fill(tensors: Mapping[str, Tensor], names: Mapping[str, str], path: str, file: WeightsFile) -> None:
    try:
        with safe_open(path, framework="pt") as reader:
            for name, source in names.items():
                target = tensors[name].detach()
                if isinstance(target, DTensor):
                    first, end = own_rows(target)
                    target.to_local().copy_(reader.get_slice(source)[first:end])
                else:
                    target.copy_(reader.get_tensor(source))
    except (OSError, SafetensorError) as error:
        raise UserError(f"{storage.plain(file.path)} cannot be read as weights: {error}") from None


@contextmanager
def _local_copy(file: WeightsFile, rank: Rank, patience_s: float) -> Iterator[str]:
    """Yields a local path of the file; downloads and verifies an object once for all ranks of a machine."""
    if not storage.is_remote(file.path):
        yield file.path
        return
    within_s = patience_s + file.bytes / SLOWEST_BYTES_PER_S
    with ExitStack() as stack:
        own = stack.enter_context(download.local_copy(file.path)) if rank.local_rank == 0 else ""
        yield rank.exchange(own, within_s=within_s)[rank.rank - rank.local_rank]
        rank.exchange(None, within_s=within_s)
