"""How the job ended: its exit code, and a sentence on what went wrong."""

from __future__ import annotations

import signal

from vgp.protocol.launching.rank import Rank


def verdict(ranks: list[Rank], failed: list[Rank], asked: int) -> tuple[int, str]:
    """The exit code and the sentence, of ranks that have ended; `asked` is the signal that stopped them, else 0."""
    if asked:
        killed = ", ".join(rank.name for rank in ranks if rank.status == -signal.SIGKILL)
        rest = f"; killed, since it went on: {killed}" if killed else ""
        code = next((rank.status for rank in failed if rank.status and rank.status > 0), 128 + asked)
        return code, f"stopped by {name_of(asked)}{rest}."
    if not failed:
        return 0, ""
    rank = min(failed, key=failed_at)
    status, pipes = rank.status or 0, rank.pipes
    is_buried = any(other.pipes.wrote_at > pipes.wrote_at for other in ranks)
    lines = ["; its last lines:", *pipes.last] if is_buried else ["."]
    return status if status > 0 else 128 - status, f"{rank.name} {how(status)}" + "\n    ".join(lines)


def failed_at(rank: Rank) -> float:
    """Its traceback comes before what others notice; an old one is not of this end."""
    return rank.pipes.raised_at if rank.pipes.raised_at > rank.ended_at - 60 else rank.ended_at


def how(status: int) -> str:
    if status >= 0:
        return f"failed with exit code {status}"
    return f"was killed by {name_of(-status)}" + (" (often: out of memory)" if status == -signal.SIGKILL else "")


def name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
