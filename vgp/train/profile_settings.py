"""Parsers for the steps and ranks of a profiler trace; without torch, so that mistakes surface before training."""

import re

from vgp.base.exits import UserError

#: Steps in a trace if the request names no number, and the maximum: each step adds megabytes to the trace.
DEFAULT_STEPS, MOST_STEPS = 5, 100


def parse_steps(text: str) -> range:
    """Parses `100-105` or `100`, numbered from 1 as in the log; returns an empty range for "".

    Raises:
        ValueError: the text is malformed, the range is reversed, or it has more than `MOST_STEPS` steps.
    """
    if not text:
        return range(0)
    match = re.fullmatch(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", text)
    if not match:
        raise ValueError("give the first and the last step, such as 100-105, or one step")
    first, last = int(match[1]), int(match[2] or match[1])
    if not 1 <= first <= last:
        raise ValueError("steps start at 1, and the first must not be after the last")
    if last - first >= MOST_STEPS:
        raise ValueError(f"these are {last - first + 1} steps; a trace can have at most {MOST_STEPS}")
    return range(first, last + 1)


def parse_ranks(text: str) -> frozenset[int] | None:
    """Parses `0` or `0,3`; returns None for `all`. Raises ValueError for other text."""
    if text == "all":
        return None
    if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", text):
        raise ValueError("give process numbers, such as 0 or 0,3, or all")
    return frozenset(map(int, text.split(",")))


def require_within(profile_steps: str, profile_ranks: str, total_steps: int, world_size: int) -> None:
    """Raises UserError if `profile_steps` or `profile_ranks` name steps or processes that the run does not have."""
    selected = parse_steps(profile_steps)
    if selected and selected[-1] > total_steps:
        raise UserError(
            f"profile_steps={profile_steps}: the run has {total_steps} steps. Name some of 1-{total_steps}."
        )
    if any(rank >= world_size for rank in parse_ranks(profile_ranks) or ()):
        available = f"{world_size} processes: 0 to {world_size - 1}" if world_size > 1 else "one process: 0"
        raise UserError(f"profile_ranks={profile_ranks}: the run has {available}.")


def parse_request(text: str) -> int:
    """Parses the number of steps in a profile request file. Raises ValueError for other text."""
    text = text.strip()
    if not text:
        return DEFAULT_STEPS
    if not re.fullmatch("[0-9]{1,9}", text) or not 1 <= int(text) <= MOST_STEPS:
        raise ValueError(f"it must hold a number of steps from 1 to {MOST_STEPS}")
    return int(text)
