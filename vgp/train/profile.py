"""Which steps and ranks a profiler trace is asked of; without torch, so that a mistake is found before training."""

import re

from vgp.base.exits import UserError

#: The steps that are traced where a request names no number; the most, since a trace grows by megabytes with each.
DEFAULT_STEPS, MOST_STEPS = 5, 100


def steps(text: str) -> range:
    """`100-105` or `100`, numbered from 1, as the log counts them; empty for "".

    Raises:
        ValueError: says what was given and the rule.
    """
    if not text:
        return range(0)
    match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", text)
    if not match:
        raise ValueError("give the first and the last step, such as 100-105, or one step")
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last:
        raise ValueError("steps are counted from 1, and the first is not after the last")
    if last - first >= MOST_STEPS:
        raise ValueError(f"these are {last - first + 1} steps, and nobody can look at more than {MOST_STEPS}")
    return range(first, last + 1)


def ranks(text: str) -> frozenset[int] | None:
    """`0`, or `0,3`; None for `all`. Raises ValueError as above."""
    if text == "all":
        return None
    if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text):
        raise ValueError("give the numbers of processes, such as 0 or 0,3, or all")
    return frozenset(map(int, text.split(",")))


def require_within(profile_steps: str, profile_ranks: str, total_steps: int, world_size: int) -> None:
    """Raises UserError if the run has no such steps or processes."""
    wanted = steps(profile_steps)
    if wanted and wanted[-1] > total_steps:
        raise UserError(
            f"profile_steps={profile_steps}: the run has {total_steps} steps. Name some of 1-{total_steps}."
        )
    beyond = sorted(rank for rank in ranks(profile_ranks) or () if rank >= world_size)
    if beyond:
        there = f"are {world_size} processes: 0 to {world_size - 1}" if world_size > 1 else "is one process: 0"
        raise UserError(f"profile_ranks={profile_ranks}: there {there}.")


def asked(text: str) -> int:
    """The number of steps that a request file asks for. Raises ValueError if it is none."""
    text = text.strip()
    if not text:
        return DEFAULT_STEPS
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= MOST_STEPS:
        raise ValueError(f"it holds no number of steps from 1 to {MOST_STEPS}")
    return int(text)
