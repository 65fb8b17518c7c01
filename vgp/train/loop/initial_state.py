"""The state that a run begins with: the newest checkpoint that is whole and finite, else trained weights (warm start).

Ranks read a checkpoint together, and once. It is verified while it is read, so a damaged one is in the model before
that is known: `Learner.spoilt`. Ranks that wait for one that reads do so without a collective, whose timeout would end
them.
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
from vgp.base.text.printable import listed
from vgp.data.task import Task
from vgp.train.checkpoint import recovery
from vgp.train.checkpoint.manifest import Manifest
from vgp.train.checkpoint.reading import raise_first
from vgp.train.checkpoint.saved import Saved
from vgp.train.checkpoint.state import own_rows
from vgp.train.checkpoint.store import Store, store_at
from vgp.train.config import TrainConfig
from vgp.train.loop.learner import Learner
from vgp.train.loop.optimizers import matching_names, require_matches
from vgp.train.loop.training_request import TrainingRequest
from vgp.train.processes.rank import SLOWEST_BYTES_PER_S, Rank
from vgp.train.weights import Weights, WeightsFile


def restore_newest(request: TrainingRequest, rank: Rank, learner: Learner) -> Manifest | None:
    """The newest checkpoint that verifies, its state taken by `learner`; None without one.

    Raises:
        StoreDown: the store could not be reached for `checkpoint_patience_s` seconds.
        UserError: checkpoints are whole, but none of them holds a state that training can go on from.
    """
    patience_s = request.config.checkpoint_patience_s
    source = store_at(request.start.folder, deadline_s=patience_s)
    try:
        return _restore_newest(request.start.run, rank, learner, source, patience_s + request.config.hang_after_s)
    except StoreDown as error:
        raise StoreDown(f"{error} (checkpoint_patience_s={patience_s:g})") from None


def _restore_newest(run: int, rank: Rank, learner: Learner, source: Store, within_s: float) -> Manifest | None:
    names = rank.exchange(recovery.committed(source, run) if rank.leads and run >= 0 else [], within_s=within_s)[0]
    diverged = ""
    for name in names:
        try:
            manifest = _manifest(source, name, rank, within_s)
            learner.restore(Saved(source, manifest, rank, within_s=within_s + BLOCK / SLOWEST_BYTES_PER_S))
            why = next(filter(None, rank.exchange(_divergence(name, learner), within_s=within_s)), "")
            if not why:
                return manifest
            diverged = why
        except recovery.Damaged as damage:
            why = str(damage)
        if rank.leads:
            print(f"checkpoint skipped: {why}", file=sys.stderr, flush=True)
    if diverged:
        raise UserError(
            f"no checkpoint in {source} can be gone on from: {diverged}. Start anew with resume=never, and a lower "
            "learning_rate, or give another folder."
        )
    return None


def _manifest(source: Store, name: str, rank: Rank, within_s: float) -> Manifest:
    """Read by one rank. Raises Damaged, on every rank."""
    text = damage = ""
    if rank.leads:
        try:
            text = recovery.read_manifest(source, name).encode().decode()
        except recovery.Damaged as error:
            damage = str(error)
    text, damage = rank.exchange([text, damage], within_s=within_s)[0]
    raise_first([damage])
    return Manifest.decode(text.encode())


def _divergence(name: str, learner: Learner) -> str:
    """What in the restored state is not finite; "" if all is."""
    broken = sorted(learner.broken())
    return f"{name} holds values that are not finite ({', '.join(broken[:3])}): training had diverged" if broken else ""


def landing_difference(
    checkpoint: Manifest, config: TrainConfig, world_size: int, device: str, microbatches: int
) -> str:
    """One sentence on what differs from a run that stayed where it was; "" where nothing does.

    Args:
        device: Its kind, as `Manifest.device` tells that of the run before.
    """
    before, moved = len(checkpoint.parts), bool(checkpoint.device) and checkpoint.device != device
    if before == world_size and not moved:
        return ""
    kinds = f"on {checkpoint.device}" if moved else ""
    went = f"saved by {processes(before)}{f' {kinds}' if kinds else ''}, gone on with by {processes(world_size)}"
    head = went + (f" on {device}" if moved else "")
    uneven = microbatches % world_size
    slow = (
        f"; {microbatches} microbatches on {world_size}: some compute one more, and the others wait" if uneven else ""
    )
    return f"{head}: {_consequence(config.exact, moved)}{slow}"


def _consequence(exact: bool, moved: bool) -> str:
    if exact and not moved:
        return "the same bits as if nothing had happened (exact=true)"
    if exact:
        return "sums are in the same order, but another kind of device may round them differently"
    return "sums of gradients are in another order, so last digits differ from those of a run that stayed"


def processes(count: int) -> str:
    return f"{count} process" if count == 1 else f"{count} processes"


@dataclass
class Match:
    """Which tensor of the files goes into which of the model, and what does not match."""

    #: Names in the model -> names in the files.
    taken: dict[str, str] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)


def take_weights(
    module: nn.Module, weights: Weights, task: Task, config: TrainConfig, rank: Rank, patience_s: float
) -> Match:
    """Replaces the weights of a model, of which this rank may hold shares; every rank must call it.

    Raises:
        UserError: they do not fit, or cannot be read.
    """
    tensors = {name: t for name, t in module.state_dict(keep_vars=True).items() if isinstance(t, Tensor)}
    match = match_weights(tensors, weights, task, config)
    with torch.no_grad():
        for number, file in enumerate(weights.files):
            wanted = {ours: theirs for ours, theirs in match.taken.items() if weights.tensors[theirs].file == number}
            if wanted:
                with _on_this_machine(file, rank, patience_s) as path:
                    _fill(tensors, wanted, path, file)
    return match


def match_weights(tensors: Mapping[str, Tensor], weights: Weights, task: Task, config: TrainConfig) -> Match:
    """Raises UserError, with all that does not match, unless each tensor of the model is there or new."""
    require_matches("warm_start_new", config.warm_start_new, tensors)
    require_matches("warm_start_ignore", config.warm_start_ignore, weights.tensors)
    require_matches("warm_start_names", [f"{prefix}*" for prefix in config.warm_start_names], tensors)
    named, match = _renaming(task, config), Match()
    used = set(matching_names(weights.tensors, config.warm_start_ignore))
    for names in _aliases(tensors):
        theirs = {ours: other for ours in names if (other := named(ours)) is not None}
        used.update(theirs.values())
        there = [(ours, other) for ours, other in theirs.items() if other in weights.tensors]
        if matching_names(names, config.warm_start_new) or not theirs:
            match.new.append(names[0])
        elif not there:
            match.missing.append(names[0])
        else:
            _compare(tensors, weights, *there[0], match)
    match.unexpected = sorted(weights.tensors.keys() - used)
    if match.missing or match.unexpected or match.unlike:
        raise UserError(_misfit(weights, match))
    if not match.taken:
        raise UserError(f"warm_start={weights.source}: all of the model is new, so nothing would be taken from there.")
    return match


def _compare(tensors: Mapping[str, Tensor], weights: Weights, ours: str, theirs: str, match: Match) -> None:
    there, here = weights.tensors[theirs], tensors[ours]
    if there.shape != tuple(here.shape):
        match.unlike.append(f"{ours}: {list(there.shape)} there, {list(here.shape)} here")
    elif there.is_float != here.is_floating_point():
        match.unlike.append(f"{ours}: {there.dtype} there, {str(here.dtype).removeprefix('torch.')} here")
    else:
        match.taken[ours] = theirs


def _aliases(tensors: Mapping[str, Tensor]) -> list[list[str]]:
    """The names of each tensor: tied weights have several."""
    names: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        names.setdefault(id(tensor), []).append(name)
    return list(names.values())


def _renaming(task: Task, config: TrainConfig) -> Callable[[str], str | None]:
    """What a tensor of the model is called in the files; None = it is new."""
    prefixes = sorted(config.warm_start_names, key=len, reverse=True)

    def named(name: str) -> str | None:
        for prefix in prefixes:
            if name.startswith(prefix):
                return config.warm_start_names[prefix] + name[len(prefix) :]
        return task.warm_name(name)

    return named


def _misfit(weights: Weights, match: Match) -> str:
    parts = {
        "not there": match.missing, "there, but not in the model": match.unexpected, "of another form": match.unlike,
    }  # fmt: skip
    lines = [f"  {what}: {listed(names)}" for what, names in parts.items() if names]
    return "\n".join(
        [f"warm_start={weights.source} does not fit the model that the task builds:", *lines, *_advice(match)]
    )


def _advice(match: Match) -> Iterator[str]:
    """The prefix that would mend it, or the settings that say what is meant."""
    for ours in match.missing[:1]:
        prefixes = {theirs[: -len(ours)] for theirs in match.unexpected if theirs.endswith(f".{ours}")}
        for prefix in sorted(prefixes)[:1]:
            yield f'Names there begin with {prefix}: is it warm_start_names={{"": "{prefix}"}}?'
        shorter = [theirs for theirs in match.unexpected if ours.endswith(f".{theirs}")]
        for theirs in shorter[:1]:
            prefix = ours[: -len(theirs)]
            yield f'Names here begin with {prefix}: is it warm_start_names={{"{prefix}": ""}}?'
    yield (
        "What is new is named by warm_start_new, what is left there by warm_start_ignore (patterns such as head.*); "
        "names that differ by warm_start_names, or by the task's warm_name."
    )


def _fill(tensors: Mapping[str, Tensor], wanted: Mapping[str, str], path: str, file: WeightsFile) -> None:
    try:
        with safe_open(path, framework="pt") as opened:
            for ours, theirs in wanted.items():
                into = tensors[ours].detach()
                if isinstance(into, DTensor):
                    first, end = own_rows(into)
                    into.to_local().copy_(opened.get_slice(theirs)[first:end])
                else:
                    into.copy_(opened.get_tensor(theirs))
    except (OSError, SafetensorError) as error:
        raise UserError(f"{storage.plain(file.path)} cannot be read as weights: {error}") from None


@contextmanager
def _on_this_machine(file: WeightsFile, rank: Rank, patience_s: float) -> Iterator[str]:
    """A path of the file here: an object is fetched, and verified, once for all ranks of a machine."""
    if not storage.is_remote(file.path):
        yield file.path
        return
    within_s = patience_s + file.bytes / SLOWEST_BYTES_PER_S
    with ExitStack() as stack:
        own = stack.enter_context(download.local_copy(file.path)) if rank.local_rank == 0 else ""
        yield rank.exchange(own, within_s=within_s)[rank.rank - rank.local_rank]
        rank.exchange(None, within_s=within_s)
