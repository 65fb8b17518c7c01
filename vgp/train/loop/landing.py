"""What is another result, where a run goes on with other processes or on another kind of device: said when it does."""

from vgp.train.checkpoint.manifest import Manifest as Checkpoint
from vgp.train.config import TrainConfig


def difference(checkpoint: Checkpoint, config: TrainConfig, world_size: int, device: str, microbatches: int) -> str:
    """One sentence on what differs from a run that stayed where it was; "" where nothing does.

    Args:
        device: Its kind, as `Checkpoint.device` tells that of the run before.
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
