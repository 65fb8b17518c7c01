"""Whether the microbatches of a step can be assigned to so many processes; known before anything is imported for it."""

from collections.abc import Collection

from vgp.base.exits import UserError
from vgp.train.config import TrainConfig


def check_assignment(microbatches: int, world_size: int, exact: bool, where: str = "") -> None:
    """Raises UserError: a process would have none, or the exact mode has no such number. `where` says whose it is."""
    if microbatches < world_size:
        raise UserError(
            f"microbatches={microbatches} cannot be assigned to {world_size} processes{where}: each needs one. "
            f"Take at most {microbatches} processes, or at least {world_size} microbatches."
        )
    if exact and (microbatches & (microbatches - 1) or world_size & (world_size - 1)):
        raise UserError(
            f"exact=true needs powers of two, not {microbatches} microbatches on {world_size} processes{where}: "
            "set microbatches to 4, 8, 16... and take 1, 2, 4, 8... processes."
        )


def check_rungs(config: TrainConfig, world_sizes: Collection[int]) -> None:
    """Whether the run can begin, and go on, with each number of processes that its machines may have, on any rung.

    Raises:
        UserError: one cannot be. Without `exact` and `microbatches` each can: microbatches are as many as it takes.
    """
    if not (config.exact or config.microbatches):
        return
    for world_size in sorted(set(world_sizes)):
        microbatches = config.microbatches or max(4, world_size)
        check_assignment(microbatches, world_size, config.exact, where=", one for each GPU of the step's machines")
