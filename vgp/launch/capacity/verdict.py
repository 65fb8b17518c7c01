"""How a step ends, if it does, told from the journal when nothing goes on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from vgp.base.text.figures import plural, took, usd
from vgp.launch.capacity.in_vain import why_in_vain
from vgp.launch.capacity.outcome import MOVES_ON
from vgp.launch.capacity.patience import MOST_S
from vgp.launch.capacity.situation import LEAST_S, is_silent, last_moment, open_rungs, why_over
from vgp.protocol.capacity.ladder import Attempt, Ladder
from vgp.protocol.capacity.plan import Plan
from vgp.protocol.capacity.way import held

#: So many jobs in a row may be lost by a fault of Google's, and save nothing, before the step fails.
MOST_LOST = 5


@dataclass(frozen=True)
class Verdict:
    """How the step ends: its exit code, a sentence, and the last lines of the program that failed."""

    code: int
    words: str
    lines: tuple[str, ...] = field(default=())


def verdict(
    plan: Plan, ladder: Ladder, outputs: str, now: float, last_words: Callable[[str], Sequence[str]]
) -> Verdict | None:
    """How the step ends; None while it goes on.

    Args:
        outputs: Digest of where the outputs of this attempt of Vertex AI belong.
        last_words: The last lines of the program of a job.
    """

    def failure(last: Attempt, why: str) -> Verdict:
        said = last.job if last.started is not None and last.outcome != "cancelled" else None
        words = f"{plan.step} failed on {last.rung}: {why}".rstrip(".")
        return Verdict(1, f"{words}. {_way(ladder)}", tuple(last_words(said)) if said else ())

    last = ladder.attempts[-1] if ladder.attempts else None
    mine = last if last and last.outputs == outputs else None
    if mine and mine.outcome == "succeeded":
        return Verdict(0, f"{plan.step} succeeded: {_way(ladder)}")
    if last and last.outcome not in (*MOVES_ON, "succeeded") and (mine or last.ending != "cancelled"):
        return failure(last, last.words)
    if now + LEAST_S > last_moment(ladder):
        return Verdict(1, f"{why_over(ladder)}: {_way(ladder)}")
    if last and last.outcome == "timeout" and (last.step_to or 0) <= (last.step_from or 0):
        return Verdict(1, f"{last.rung}: {last.words}, and no step was saved: a larger timeout is needed")
    if gone := _why_lost(ladder):
        return Verdict(1, gone)
    if last and (words := why_in_vain(ladder)):
        return failure(last, words)
    if not open_rungs(plan, ladder, now):
        return Verdict(1, f"every rung has used up its timeout: {_way(ladder)}")
    return None


def _why_lost(ladder: Ladder) -> str:
    """What Google loses again and again; empty as long as it is tried once more.

    An outage in which no creation is answered loses no machines: it may take as long as one of any other request.
    """
    lost = list(takewhile(lambda each: each.outcome == "lost" and not _saved(each), reversed(ladder.attempts)))
    jobs, silent = [each for each in lost if each.job], list(takewhile(is_silent, lost))
    if len(jobs) >= MOST_LOST:
        return f"{MOST_LOST} jobs in a row were lost: {jobs[0].words}"
    lasted_s = (silent[0].ended or 0.0) - silent[-1].intended if silent else 0.0
    if len(silent) >= MOST_LOST and lasted_s >= MOST_S:
        return f"no job could be created for {took(lasted_s)}: {silent[0].words}"
    return ""


def _saved(attempt: Attempt) -> bool:
    return (attempt.step_to or 0) > (attempt.step_from or 0)


def _way(ladder: Ladder) -> str:
    """`4 attempts, 12 probes, 5h 12m of machines, $41.20`."""
    hours = held(sum(each.hours for each in ladder.attempts), sum(each.hours for each in ladder.probes))
    probes = f"{plural(len(ladder.probes), 'probe')}, " if ladder.probes else ""
    return f"{plural(len(ladder.attempts), 'attempt')}, {probes}{hours}, {usd(ladder.usd)}"
