"""The exit code and message of a step, decided from the journal while no attempt is open.

Futile attempts: a program that fails in one way on every machine can look like preempted machines. Exit code 137 on
Spot may be a lack of memory, and the program itself may cause 75 and 143. Other machines would not fix that, and the
launcher would retry until its time is over. So it counts attempts that had machines, ended with one of these codes and
saved no new step. Not counted: attempts without machines, ended by the launcher, or ended by a stockout.

`read_log_tail` reads the last log lines of a job from Cloud Logging.

https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from vgp.base import google_api
from vgp.base.text.figures import format_count, format_duration, format_usd, join_words
from vgp.base.text.printable import printable
from vgp.launch.capacity.outage_retry import MOST_S, is_transient, reason
from vgp.launch.capacity.outcome import RETRIED
from vgp.launch.capacity.situation import LEAST_S, held_s, is_silent, last_moment, open_rungs, reason_for_last_moment
from vgp.protocol.capacity.ladder import Attempt, Ladder
from vgp.protocol.capacity.plan import Plan

#: The step fails after this many jobs in a row that Google lost and that saved no step.
MAX_LOST = 5


@dataclass(frozen=True)
class Verdict:
    """The end of a step: its exit code, a message, and the last log lines of the failed program."""

    code: int
    words: str
    lines: tuple[str, ...] = field(default=())


def decide_verdict(
    plan: Plan, ladder: Ladder, outputs: str, now: float, read_log: Callable[[str], Sequence[str]]
) -> Verdict | None:
    """Returns how the step ends, or None to continue with another attempt.

    Args:
        outputs: Digest of the output paths of this attempt of Vertex AI.
        read_log: Returns the last log lines of a job.
    """

    def failure(last: Attempt, why: str) -> Verdict:
        job = last.job if last.started is not None and last.outcome != "cancelled" else None
        words = f"{plan.step} failed on {last.rung}: {why}".rstrip(".")
        return Verdict(1, f"{words}. {_summarize(ladder)}", tuple(read_log(job)) if job else ())

    last = ladder.attempts[-1] if ladder.attempts else None
    own = last if last and last.outputs == outputs else None
    if own and own.outcome == "succeeded":
        return Verdict(0, f"{plan.step} succeeded: {_summarize(ladder)}")
    if last and last.outcome not in (*RETRIED, "succeeded") and (own or last.ending != "cancelled"):
        return failure(last, last.words)
    if now + LEAST_S > last_moment(ladder):
        return Verdict(1, f"{reason_for_last_moment(ladder)}: {_summarize(ladder)}")
    if last and last.outcome == "timeout" and (last.step_to or 0) <= (last.step_from or 0):
        return Verdict(1, f"{last.rung}: {last.words}, and saved no step. Set a larger timeout")
    if lost_jobs := _describe_lost_jobs(ladder):
        return Verdict(1, lost_jobs)
    if last and (words := describe_futile_attempts(ladder)):
        return failure(last, words)
    if not open_rungs(plan, ladder, now):
        return Verdict(1, f"every rung has used up its timeout: {_summarize(ladder)}")
    return None


def _describe_lost_jobs(ladder: Ladder) -> str:
    """Returns the failure after too many lost jobs in a row, or an empty text to try again.

    An outage that leaves creations unanswered costs no machines, so it may last as long as that of any other request.
    """
    lost = list(
        takewhile(lambda attempt: attempt.outcome == "lost" and not _has_saved(attempt), reversed(ladder.attempts))
    )
    # Attempts whose job existed, and the last attempts whose creation got no answer.
    jobs, silent = [attempt for attempt in lost if attempt.job], list(takewhile(is_silent, lost))
    if len(jobs) >= MAX_LOST:
        return f"{MAX_LOST} jobs in a row were lost: {jobs[0].words}"
    lasted_s = (silent[0].ended or 0.0) - silent[-1].intended if silent else 0.0
    if len(silent) >= MAX_LOST and lasted_s >= MOST_S:
        return f"no job could be created for {format_duration(lasted_s)}: {silent[0].words}"
    return ""


def _has_saved(attempt: Attempt) -> bool:
    return (attempt.step_to or 0) > (attempt.step_from or 0)


def _summarize(ladder: Ladder) -> str:
    """Returns a summary: `4 attempts, Spot asked for 12 times beside them, 5h 12m of machines, $41.20`."""
    hours = format_duration(sum(job.hours for job in (*ladder.attempts, *ladder.waiting)) * 3600)
    spot = f"Spot asked for {format_count(len(ladder.waiting), 'time')} beside them, " if ladder.waiting else ""
    return f"{format_count(len(ladder.attempts), 'attempt')}, {spot}{hours} of machines, {format_usd(ladder.usd)}"


#: Futile attempts until the step fails if the program reports its steps: it also saves on a preemption notice.
MAX_WITH_STEPS = 3
#: For a script without progress: this many with one exit code, all within SOON_S or after about equal times.
MAX_SIMILAR, SOON_S, SIMILAR_RATIO = 5, 600.0, 1.25
_CODE = re.compile(r"exit code (\d+)")
_ADVICE = {
    "137": "The program was killed, often for lack of memory: use machines with more memory, or load less data.",
    "75": "The program ends before it saves a step; see its last lines for the reason.",
    "143": "The program receives SIGTERM before it saves a step; its last lines may show the sender.",
}


def describe_futile_attempts(ladder: Ladder) -> str | None:
    """Returns a message with the futile attempts and advice, or None while another machine may help."""
    futile = _futile_attempts(ladder)
    with_steps = [attempt for attempt in futile if attempt.steps_lost is not None]
    if len(with_steps) >= MAX_WITH_STEPS:
        return _describe_attempts(with_steps[:MAX_WITH_STEPS])
    return _describe_attempts(futile[:MAX_SIMILAR]) if not with_steps and _are_similar(futile[:MAX_SIMILAR]) else None


def _futile_attempts(ladder: Ladder) -> list[Attempt]:
    """Returns the futile attempts after the last one that saved a step, newest first."""
    futile = list[Attempt]()
    for attempt in reversed(ladder.attempts):
        if _has_saved(attempt):
            break
        if attempt.started and attempt.outcome == "preempted" and _format_code(attempt):
            futile.append(attempt)
    return futile


def _are_similar(attempts: Sequence[Attempt]) -> bool:
    times = [_run_seconds(attempt) for attempt in attempts]
    if len(times) < MAX_SIMILAR or len({_format_code(attempt) for attempt in attempts}) > 1:
        return False
    return max(times) < SOON_S or max(times) <= SIMILAR_RATIO * min(times)


def _run_seconds(attempt: Attempt) -> float:
    return held_s(attempt, attempt.ended or 0.0)


def _format_code(attempt: Attempt) -> str:
    match = _CODE.search(attempt.words)
    return match[1] if match else ""


def _describe_attempts(attempts: Sequence[Attempt]) -> str:
    ends = join_words(
        (
            f"exit code {_format_code(attempt)} after {format_duration(_run_seconds(attempt))}"
            for attempt in reversed(attempts)
        ),
        "and",
    )
    return (
        f"{format_count(len(attempts), 'attempt')} in a row had machines and saved no step: {ends}. "
        f"Other machines would not help. {_ADVICE.get(_format_code(attempts[0]), '')}"
    ).strip()


#: The number of lines, and the longest line, characters.
LINES, LONGEST = 30, 2000


def read_log_tail(session: Any, project: str, job: str) -> list[str]:
    """Returns the last log lines of all machines, oldest first, or one line with the reason why there are none."""
    try:
        return _read_log_lines(session, project, job.rpartition("/")[2])
    except Exception as error:  # the log is optional: an error while reading it must not hide the failure
        if is_transient(error) or getattr(error, "code", 0) != 403:
            return [f"(its log could not be read: {reason(error)})"]
        return ["(its log could not be read: the step's account needs logging.logEntries.list, roles/logging.viewer)"]


def _read_log_lines(session: Any, project: str, number: str) -> list[str]:
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
    lines = [f"{_name_replica(entry)}{line}" for entry in entries for line in printable(_text(entry)).splitlines()]
    return [line[:LONGEST] for line in lines[-LINES:]]


def _name_replica(entry: dict[str, Any]) -> str:
    name = entry.get("resource", {}).get("labels", {}).get("task_name", "")
    return f"[{name}] " if name else ""


def _text(entry: dict[str, Any]) -> str:
    """Returns a line of a program; Vertex AI stores it as text or as an object with `message`."""
    return str(entry.get("textPayload") or entry.get("jsonPayload", {}).get("message", ""))
