"""The findings of preflight, the questions that lead to them, and their output as text and JSON."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.printable import one_line, printable
from vgp.settings import Settings
from vgp.vertex import clients
from vgp.vertex.google_errors import explain_errors

#: ok; warning: works, or may; error: would fail; unknown: could not be checked; skipped: nothing to check.
Level = Literal["ok", "warning", "error", "unknown", "skipped"]

#: Seconds for one attempt, and for one question with its retries: short, because a user waits for the answer.
ATTEMPT_S, QUESTION_S = 10.0, 20.0
CONCURRENT = 16
_MARKS = {
    "ok": ("✓", "green"),
    "warning": ("!", "yellow"),
    "error": ("✗", "red"),
    "unknown": ("?", "yellow"),
    "skipped": ("–", "dim"),
}
_RANK = ("ok", "skipped", "unknown", "warning", "error")
#: Digests are shortened to 12 digits.
_DIGEST = re.compile(r"(@sha256:[0-9a-f]{12})[0-9a-f]{52}$")


@dataclass(frozen=True)
class Finding:
    """The result of one check of one resource."""

    #: Name of the check, such as bucket.region; stable, for scripts.
    check: str
    #: The checked resource, such as gs://my-bucket.
    subject: str
    level: Level
    #: The observation, as a predicate of the subject: `is in us-central1`.
    seen: str
    #: The command or the link that fixes it.
    hint: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)


@dataclass(frozen=True)
class Question:
    """A call to Google that returns findings. A failed call is reported under `check` and `subject`."""

    check: str
    subject: str
    look: Callable[[], Iterable[Finding]]


def skip_question(check: str, subject: str, why: str) -> Question:
    """Returns a question without a call, for a resource that the settings do not use; `why` is its finding."""
    return Question(check, subject, lambda: [Finding(check, subject, "skipped", why)])


def call_options() -> clients.CallOptions:
    """Returns the arguments of every call of preflight: retries as in other reads, for a shorter time."""
    return {"retry": clients.repeating().with_timeout(QUESTION_S), "timeout": ATTEMPT_S}


def answer_questions(
    settings: Settings, questions: Sequence[Question], answer_came: Callable[[], None] = lambda: None
) -> list[Finding]:
    """Asks all questions concurrently; returns their findings in the order of the questions, without duplicates."""
    with ThreadPoolExecutor(max_workers=CONCURRENT) as pool:
        answers = [pool.submit(answer_question, settings, question) for question in questions]
        for _ in as_completed(answers):
            answer_came()
    return list(dict.fromkeys(finding for answer in answers for finding in answer.result()))


def answer_question(settings: Settings, question: Question) -> list[Finding]:
    """Returns the findings of one question; after a failure those until then, and a finding about the failure."""
    findings: list[Finding] = []
    try:
        with explain_errors("not seen", settings):
            for finding in question.look():
                findings.append(finding)
    except (WorkFailed, RequestError) as failure:
        seen, *hint = str(failure).splitlines()
        # A RequestError comes from a wrong setup here (no credentials), so a run would fail too.
        level: Level = "error" if isinstance(failure, RequestError) else "unknown"
        findings.append(Finding(question.check, question.subject, level, seen, "\n".join(map(str.strip, hint))))
    except Exception as error:
        # An answer in an unexpected form must not hide the findings of other questions.
        seen = f"the answer was not understood: {type(error).__name__}: {error}"
        findings.append(Finding(question.check, question.subject, "unknown", seen))
    return findings


def findings_json(name: str, findings: Sequence[Finding]) -> JsonObject:
    """Returns the findings and the number of findings by level, for --json."""
    return {
        "pipeline": name,
        "counts": count_levels(findings),
        "findings": [finding.as_json() for finding in findings],
    }


def count_levels(findings: Sequence[Finding]) -> dict[str, int]:
    levels = Counter(finding.level for finding in findings)
    return {level: levels[level] for level in get_args(Level)}


def render_lines(findings: Sequence[Finding]) -> Iterator[Text]:
    """Renders a line for each finding with its fix below it; the worst come last, next to the prompt.

    It is no table, because a command that is folded into a column cannot be copied.
    """
    for one in sorted(findings, key=lambda finding: _RANK.index(finding.level)):
        mark, style = _MARKS[one.level]
        subject = _DIGEST.sub(r"\1", one.subject)
        rest = "dim" if one.level in ("ok", "skipped") else ""
        yield Text.assemble((mark, style), (f" {one.check:<20}", "dim"), (one_line(f"{subject} {one.seen}"), rest))
        for line in printable(one.hint).splitlines():
            yield Text(f"    {line}", style="cyan")


def summarize(findings: Sequence[Finding]) -> str:
    """Returns the counts by level, such as `4 ok, 1 error.`"""
    words = {"warning": "warnings", "error": "errors"}
    present = [(number, level) for level, number in count_levels(findings).items() if number]
    return ", ".join(f"{number} {words.get(level, level) if number != 1 else level}" for number, level in present) + "."
