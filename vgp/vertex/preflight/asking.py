"""Questions to Google, side by side: an answer that fails is a finding too, and hides no other."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from vgp.base.errors import RequestError, WorkFailed
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.errors import explained
from vgp.vertex.preflight.finding import Finding, Level, Question

#: Seconds for one attempt, and for one question with its repetitions: who waits for a check waits not for long.
ATTEMPT_S, QUESTION_S = 10.0, 20.0
AT_A_TIME = 16


def patience() -> dict[str, Any]:
    """Arguments of every call: repeated like all reading, for a shorter time."""
    return {"retry": clients.reading()["retry"].with_timeout(QUESTION_S), "timeout": ATTEMPT_S}


def answered(
    settings: Settings, questions: Sequence[Question], answer_came: Callable[[], None] = lambda: None
) -> list[Finding]:
    """The findings of all questions in their order, asked at the same time; what two of them tell is told once."""
    with ThreadPoolExecutor(max_workers=AT_A_TIME) as pool:
        asked = [pool.submit(answers, settings, question) for question in questions]
        for _ in as_completed(asked):
            answer_came()
    return list(dict.fromkeys(finding for answer in asked for finding in answer.result()))


def answers(settings: Settings, question: Question) -> list[Finding]:
    """The findings of one question; if it could not be answered, those until then and why."""
    findings: list[Finding] = []
    try:
        with explained("not seen", settings):
            for finding in question.look():
                findings.append(finding)
    except (WorkFailed, RequestError) as failure:
        seen, *hint = str(failure).splitlines()
        # A wrong request is one of ours (no credentials): it would fail again, whatever Google has to say.
        level: Level = "error" if isinstance(failure, RequestError) else "unknown"
        findings.append(Finding(question.check, question.subject, level, seen, "\n".join(map(str.strip, hint))))
    except Exception as error:
        # An answer in a form that nobody expected must not hide what the other questions found.
        seen = f"the answer was not understood: {type(error).__name__}: {error}"
        findings.append(Finding(question.check, question.subject, "unknown", seen))
    return findings
