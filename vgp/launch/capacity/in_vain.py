"""Attempts in vain: a program that ends the same way on every machine looks like machines that are taken away.

Exit code 137 on Spot may be a lack of memory, 75 and 143 may be of the program's own making. Other machines would not
mend that, and the ladder would be climbed until its time is over. So attempts that had machines, ended by one of these
codes and saved no new step are counted. Left out is what says nothing of the program: what got no machines, what the
launcher ended, and what Google calls a stockout.
"""

import re
from collections.abc import Sequence

from vgp.base.text.figures import listed, plural, took
from vgp.launch.capacity.situation import held_s
from vgp.protocol.capacity.ladder import Attempt, Ladder

#: So many are enough where the program had told of its steps, since it saves on a notice too.
MOST_WITH_STEPS = 3
#: A script tells nothing: so many that ended by the same code, each soon or all after much the same time.
MOST_ALIKE, SOON_S, MUCH_THE_SAME = 5, 600.0, 1.25
_CODE = re.compile(r"exit code (\d+)")
_ADVICE = {
    "137": "Killed like that, a program has often run out of memory: take machines with more, or load less at once.",
    "75": "The program ends by itself before a step is saved; its last lines say why.",
    "143": "Something tells the program to stop before a step is saved; its last lines may say what.",
}


def why_in_vain(ladder: Ladder) -> str | None:
    """What was seen and what to do, in sentences; None as long as another machine may help."""
    in_vain = _in_vain(ladder)
    with_steps = [attempt for attempt in in_vain if attempt.steps_lost is not None]
    if len(with_steps) >= MOST_WITH_STEPS:
        return _sentences(with_steps[:MOST_WITH_STEPS])
    return _sentences(in_vain[:MOST_ALIKE]) if not with_steps and _alike(in_vain[:MOST_ALIKE]) else None


def _in_vain(ladder: Ladder) -> list[Attempt]:
    """Those since the last one that saved a step, the newest first."""
    found = list[Attempt]()
    for attempt in reversed(ladder.attempts):
        if (attempt.step_to or 0) > (attempt.step_from or 0):
            break
        if attempt.started and attempt.outcome == "preempted" and _code(attempt):
            found.append(attempt)
    return found


def _alike(attempts: Sequence[Attempt]) -> bool:
    times = [_ran_s(attempt) for attempt in attempts]
    if len(times) < MOST_ALIKE or len({_code(attempt) for attempt in attempts}) > 1:
        return False
    return max(times) < SOON_S or max(times) <= MUCH_THE_SAME * min(times)


def _ran_s(attempt: Attempt) -> float:
    return held_s(attempt, attempt.ended or 0.0)


def _code(attempt: Attempt) -> str:
    found = _CODE.search(attempt.words)
    return found[1] if found else ""


def _sentences(attempts: Sequence[Attempt]) -> str:
    ends = listed((f"exit code {_code(each)} after {took(_ran_s(each))}" for each in reversed(attempts)), "and")
    return (
        f"{plural(len(attempts), 'attempt')} in a row had machines and saved no step: {ends}. "
        f"Other machines would not help. {_ADVICE.get(_code(attempts[0]), '')}"
    ).strip()
