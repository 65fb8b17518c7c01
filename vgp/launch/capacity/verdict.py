"""How a step ends, if it does, told from the journal when nothing goes on.

Attempts in vain: a program that ends the same way on every machine looks like machines that are taken away.

Exit code 137 on Spot may be a lack of memory, 75 and 143 may be of the program's own making. Other machines would not
mend that, and the ladder would be climbed until its time is over. So attempts that had machines, ended by one of these
codes and saved no new step are counted. Left out is what says nothing of the program: what got no machines, what the
launcher ended, and what Google calls a stockout.

The last lines that the program of a job wrote, from Cloud Logging.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from vgp.base import google_api
from vgp.base.text.figures import listed, plural, took, usd
from vgp.base.text.printable import printable
from vgp.launch.capacity.outcome import MOVES_ON
from vgp.launch.capacity.patience import MOST_S, is_passing, reason
from vgp.launch.capacity.situation import LEAST_S, held_s, is_silent, last_moment, open_rungs, why_over
from vgp.protocol.capacity.ladder import Attempt, Ladder
from vgp.protocol.capacity.plan import Plan

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
    """`4 attempts, Spot asked for 12 times beside them, 5h 12m of machines, $41.20`."""
    hours = took(sum(each.hours for each in (*ladder.attempts, *ladder.waiting)) * 3600)
    asked = f"Spot asked for {plural(len(ladder.waiting), 'time')} beside them, " if ladder.waiting else ""
    return f"{plural(len(ladder.attempts), 'attempt')}, {asked}{hours} of machines, {usd(ladder.usd)}"


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


#: How many lines, and how long each may be.
LINES, LONGEST = 30, 2000


def last_words(session: Any, project: str, job: str) -> list[str]:
    """The last lines of all machines, the oldest first; or one that says why they cannot be read."""
    try:
        return _lines(session, project, job.rpartition("/")[2])
    except Exception as error:  # what the job said is a help, and its lack no failure of its own
        if is_passing(error) or getattr(error, "code", 0) != 403:
            return [f"(its log could not be read: {reason(error)})"]
        return ["(its log could not be read: the step's account needs logging.logEntries.list, roles/logging.viewer)"]


def _lines(session: Any, project: str, number: str) -> list[str]:
    from google.api_core.exceptions import from_http_response

    of_job = f'resource.type="ml_job" AND resource.labels.job_id="{number}"'
    body = {
        "resourceNames": [f"projects/{project}"],
        "filter": f'{of_job} AND resource.labels.task_name!="service"',
        "orderBy": "timestamp desc",
        "pageSize": LINES,
    }
    url = f"{google_api.address('logging')}/v2/entries:list"
    answer = session.request("POST", url, json=body, timeout=google_api.ATTEMPT_S)
    if not answer.ok:
        raise from_http_response(answer)
    entries = reversed(answer.json().get("entries", []))
    lines = [f"{_replica(entry)}{line}" for entry in entries for line in printable(_text(entry)).splitlines()]
    return [line[:LONGEST] for line in lines[-LINES:]]


def _replica(entry: dict[str, Any]) -> str:
    name = entry.get("resource", {}).get("labels", {}).get("task_name", "")
    return f"[{name}] " if name else ""


def _text(entry: dict[str, Any]) -> str:
    """A line of a program, which Vertex AI keeps as a text or as an object with `message`."""
    return str(entry.get("textPayload") or entry.get("jsonPayload", {}).get("message", ""))
